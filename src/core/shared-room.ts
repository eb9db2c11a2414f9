/** A client that takes room, as a server tells clients apart. */
export interface RequestSource {
  /** Its address. */
  readonly name: string;
  /** Whether it has proved that it is the client for whom the room is. */
  readonly isKnown: boolean;
}

/**
 * A bounded room that sources share, so that none of them takes it from the others. A source may take half of the room
 * that the other sources leave. So one source alone has half of the room, and `n` sources that want all of it have an
 * `n + 1`th each, and the next source finds as much. A known source may take all that is left.
 */
export class SharedRoom {
  readonly #total: number;
  /** By name. A source without room has no entry. */
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** What all sources have taken. */
  get taken(): number {
    return this.#all;
  }

  /** What one source has taken. */
  takenBy({ name }: Pick<RequestSource, 'name'>): number {
    return this.#taken.get(name) ?? 0;
  }

  /** Whether a source may take more. @param amount default 1. */
  hasFor(source: RequestSource, amount = 1): boolean {
    if (source.isKnown) return this.#all + amount <= this.#total;
    const own = this.takenBy(source);
    const left = this.#total - (this.#all - own);
    return own + amount <= Math.ceil(left / 2);
  }

  /** Takes room for a source. @returns whether there was enough; if not, nothing is taken. */
  take(source: RequestSource, amount = 1): boolean {
    if (!this.hasFor(source, amount)) return false;
    this.#add(source, amount);
    return true;
  }

  /** Gives room back that the source has taken. */
  giveBack(source: Pick<RequestSource, 'name'>, amount = 1): void {
    this.#add(source, -amount);
  }

  #add(source: Pick<RequestSource, 'name'>, amount: number): void {
    this.#all += amount;
    const own = this.takenBy(source) + amount;
    if (own > 0) this.#taken.set(source.name, own);
    else this.#taken.delete(source.name);
  }
}
