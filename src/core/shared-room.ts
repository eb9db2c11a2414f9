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
 *
 * Sources that come one after the other get a half, a quarter, an eighth, and so on, and the shares even out as room is
 * given back. What ends by itself within seconds needs no more. What may stay must be taken with `takeFrom`, because a
 * dozen sources that give nothing back use up the room.
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

  /**
   * Takes room for a source as `take` does. If there is not enough, it takes the place of another: of the source that
   * has most, if that has more than this one will have, or else of this source itself.
   * @param free gives back what one source has taken, 1. It returns false if nothing of this source can be given up;
   *   then the source that has most but for that one is asked.
   * @returns whether there was enough or a place was given up; if not, nothing is taken.
   */
  takeFrom(source: RequestSource, free: (name: string) => boolean): boolean {
    if (this.take(source)) return true;
    const own = this.takenBy(source);
    const larger = [...this.#taken].filter(([name, taken]) => name !== source.name && taken > own + 1);
    const names = larger.toSorted(([, a], [, b]) => b - a).map(([name]) => name);
    const found = [...names, source.name].find(free);
    if (found === undefined) return false;
    this.#add(source, 1);
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
