/** A client that uses capacity, as a server distinguishes clients. */
export interface RequestSource {
  /** See `sourceName`. */
  readonly name: string;
  /** Whether it has authenticated as the client that this capacity is meant for. */
  readonly isKnown: boolean;
}

/**
 * The name of a client by its address: of IPv6 the first 64 bits, because a host may have all addresses behind them.
 */
export function sourceName(address: string): string {
  const plain = address.replace(/^::ffff:(?=[0-9]+[.])/i, '').replace(/%.*$/, '');
  if (!plain.includes(':')) return plain;
  const [before = [], after] = plain.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const left = after ? Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0') : [];
  return `${[...before, ...left, ...(after ?? [])].slice(0, 4).join(':')}::/64`;
}

/**
 * A bounded capacity that sources share, so that no source can take it from the others. A source may take half of the
 * capacity that the other sources leave. So one source alone gets half, and `n` sources that want all of it get an
 * `n + 1`th each, and the next source finds as much. A known source may take all that is left.
 *
 * Sources that come one after the other get a half, a quarter, an eighth, and so on, and the shares even out as
 * capacity is given back. That suffices for work that ends by itself within seconds. Work that may stay must use
 * `takeFrom`, because a dozen sources that give nothing back use up the capacity.
 */
export class SharedRoom {
  readonly #total: number;
  /** By name. A source without room has no entry. */
  readonly #taken = new Map<string, number>();
  #all = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** Taken by all sources. */
  get taken(): number {
    return this.#all;
  }

  /** Taken by one source. */
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

  /** Takes capacity for a source. @returns whether there was enough; if not, nothing is taken. */
  take(source: RequestSource, amount = 1): boolean {
    if (!this.hasFor(source, amount)) return false;
    this.#add(source, amount);
    return true;
  }

  /**
   * Takes capacity for a source as `take` does. If there is not enough, another place is given up: one of the source
   * with most, if it has more than this source will have, or else one of this source itself.
   * @param free gives back 1 that a source has taken. It returns false if nothing of this source can be given up; then
   *   the source with the next most is asked.
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

  /** Gives back capacity that the source has taken. */
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
