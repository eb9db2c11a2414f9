import { formatKind } from '../../../core/index.ts';
import type { RelatedRule } from '../../../contract/index.ts';
import { MAX_RELATED_BYTES, MAX_RELATED_KINDS } from '../../../contract/outcome.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { RelatedRules } from '../workqueue/records/related-rules.ts';
import type { Run } from '../workqueue/work-queue.ts';

export interface RelatedObjectsOptions {
  /** Why there is no memory for more rules. Default: there is. */
  readonly leftOut?: () => string | undefined;
  readonly rules: Pick<RelatedRules, 'kinds' | 'replace' | 'views'>;
  /** Pays for the time that the rules take, here and of Redis. */
  readonly budget: Pick<CpuBudget, 'run' | 'inTurn' | 'charge'>;
  /** `apiVersion/Kind` of the sources with the map `related`; undefined: any kind may be named. */
  readonly kinds: ReadonlySet<string> | undefined;
  /** `apiVersion/Kind` of the kinds that keys have named and whose views are complete here. Default: none. */
  readonly complete?: () => ReadonlySet<string>;
  /** Whether a key's object is in the cache, and is reconciled. */
  readonly exists: (key: string) => Promise<boolean>;
}

/** Redis' time for a name that a rule adds or removes; a name that replaces another costs it twice. */
const NAME_MS = 0.002;

/**
 * The objects that the keys of one controller depend on, as their runs name them.
 *
 * No change is missed between the reads of a run and the rule that it names: the rule is stored while the run is in
 * flight, and a key with a new rule runs once more. That run reads a change that is applied before the rule is stored;
 * a later change finds the rule. If the gateway ends in between, the run has no outcome, and the key runs again.
 */
export class RelatedObjects {
  readonly #options: RelatedObjectsOptions;
  /** Whether rules were refused when they were stored: from then on the kinds of each result are counted before. */
  #wasFull = false;

  constructor(options: RelatedObjectsOptions) {
    this.#options = options;
  }

  /**
   * Whether this gateway lacks a related kind that the leader has in the cache. A run here would not see its objects,
   * and no event would wake the key later.
   */
  async isBehind(): Promise<boolean> {
    const { complete, rules } = this.#options;
    if (!complete) return false;
    const [views, own] = [await rules.views(), complete()];
    return [...views.keys()].some((kind) => !own.has(kind));
  }

  /** Why these rules cannot be stored; undefined when they can. @throws when Redis does not answer */
  async refusal(rules: readonly RelatedRule[]): Promise<string | undefined> {
    const { budget, complete, kinds, rules: stored } = this.#options;
    const other = rules.map(formatKind).find((kind) => kinds?.has(kind) === false);
    if (other !== undefined) return noSource(other);
    const bytes = budget.run(() => Buffer.byteLength(JSON.stringify(rules)));
    if (bytes > MAX_RELATED_BYTES) {
      return `the result names related objects in ${bytes} bytes of JSON: ${MAX_RELATED_BYTES} at most`;
    }
    const leftOut = this.#options.leftOut?.();
    if (leftOut !== undefined && rules.length > 0) return `related objects are not stored: ${leftOut}`;
    const own = complete?.();
    const isNew = own && rules.some((rule) => !own.has(formatKind(rule)));
    if (rules.length === 0 || !(isNew || this.#wasFull)) return undefined;
    const found = await stored.kinds();
    budget.charge(found.length * NAME_MS);
    const all = new Set([...found, ...rules.map(formatKind)]);
    return all.size > MAX_RELATED_KINDS ? tooManyKinds(all.size) : undefined;
  }

  /**
   * Records the rules that a run has named, before the end of the run is recorded. A key without an object has none.
   * Waits while the controller has used up its budget.
   * @param rules undefined: the rules of an earlier run stay.
   * @returns why they are not stored, because runs that ended together have named too many kinds; undefined: they are.
   * @throws when Redis does not answer
   */
  async record(run: Pick<Run, 'key' | 'run'>, rules: readonly RelatedRule[] | undefined): Promise<string | undefined> {
    const isThere = await this.#options.exists(run.key);
    if (isThere && !rules) return undefined;
    return this.#replace(run, isThere && rules ? rules : []);
  }

  /** Pays in advance, so that runs which end together wait for each other, and gets the excess back. */
  async #replace(run: Pick<Run, 'key' | 'run'>, rules: readonly RelatedRule[]): Promise<string | undefined> {
    const { budget, rules: stored } = this.#options;
    const paidMs = rules.reduce((sum, { names }) => sum + (names?.length ?? 1), 0) * NAME_MS;
    const giveBack = await budget.inTurn(() => budget.charge(paidMs));
    const { cost, tooMany } = await stored.replace(run, rules, (work) => budget.run(work));
    giveBack(paidMs - cost * NAME_MS);
    if (tooMany === undefined) return undefined;
    this.#wasFull = true;
    return tooManyKinds(tooMany);
  }
}

function tooManyKinds(count: number): string {
  return `the keys name related objects of ${count} kinds: ${MAX_RELATED_KINDS} at most`;
}

/** The message for a rule whose objects have no watch. */
export function noSource(kind: string): string {
  return `the result names related objects of ${kind}, which is no source with the map "related"`;
}
