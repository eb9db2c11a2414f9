import { formatKind, matchesLabels } from '../../../../core/index.ts';
import type { RelatedRule } from '../../../../contract/index.ts';
import { MAX_RELATED_KINDS } from '../../../../contract/outcome.ts';
import type { RelatedChange } from '../../../informer/cache/change.ts';
import { type LookupBudget, unlimitedLookups } from '../../../informer/cache/lookup.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { TimeSlice } from '../../../../ground/time-slice.ts';
import type { QueueKeys } from '../queue-keys.ts';

/** Keys whose rules are in memory at a time: those of one key may have 32 KiB. */
const BATCH = 20;
/** Index members that one command reads: at most 1 KB each. */
const PAGE = 500;

/**
 * The rules of the related objects of a controller's keys, shared by its gateways. A key's rules are written by its run
 * in flight alone.
 */
export class RelatedRules {
  readonly #keys: QueueKeys;
  readonly #relate: Script;
  readonly #relatedKinds: Script;
  readonly #redis: Redis;

  constructor(redis: Redis, keys: QueueKeys) {
    this.#keys = keys;
    this.#redis = redis;
    this.#relatedKinds = loadScript(redis, import.meta.url, 'related-kinds');
    this.#relate = loadScript(redis, import.meta.url, 'relate');
  }

  /**
   * Replaces the rules of a key. Does nothing when the run is not in flight, or when the rules of all keys would have
   * more than `MAX_RELATED_KINDS` kinds: one script counts and stores, because many results come at once. A key with
   * a new rule runs again after its run, because a change before the rule was stored has not woken it.
   * @param pay runs the work over the rules in a budget. Default: without one.
   * @returns the cost of storing them, in names that a rule adds or takes away. `tooMany`: how many kinds there would
   *   be, if they are too many.
   */
  async replace(
    { key, run }: { key: string; run: number },
    rules: readonly RelatedRule[],
    pay: <T>(work: () => T) => T = (work) => work(),
  ): Promise<{ readonly cost: number; readonly tooMany: number | undefined }> {
    const texts = pay(() => new Set(rules.map(canonical)));
    const [cost, tooMany] = (await this.#set(key, run, texts)) as [number, number];
    return { cost, tooMany: tooMany || undefined };
  }

  /** Removes the rules of a key, unless it has a run in flight. */
  async remove(key: string): Promise<void> {
    await this.#set(key, '', []);
  }

  #set(key: string, run: number | '', texts: Iterable<string>): Promise<unknown> {
    return this.#relate(this.#keys.script, [key, run, MAX_RELATED_KINDS, ...texts]);
  }

  /**
   * The keys with a rule that matches this object. In no order, each once. The keys of rules that are replaced during
   * the lookup run again anyway, because their rules are new.
   * @param budget pays for the work and for the keys, page by page. It may throw, to end the lookup. Default: none.
   */
  async keysOf(
    change: RelatedChange,
    budget: Pick<LookupBudget, 'run' | 'chargeKeys'> = unlimitedLookups,
  ): Promise<string[]> {
    const { related } = this.#keys;
    const { run } = budget;
    let before = 0;
    const charge = (count: number): void => {
      budget.chargeKeys(count, before);
      before += count;
    };
    const { kind, namespace = '', name } = change;
    const places = [...new Set(['', namespace])].map((each) => `${kind}\n${each}\n`);
    const named = await this.#keysAfter(
      places.map((place) => `${place}${name}\n`),
      run,
      charge,
    );
    // Rules without names: the loop below charges the keys of those that match.
    const selecting = await this.#keysAfter(
      places.map((place) => `${place}\n`),
      run,
    );
    const selected: string[] = [];
    const slice = new TimeSlice();
    for (let from = 0; from < selecting.length; from += BATCH) {
      // Called before the read, because a lookup without time left must read nothing.
      run(() => {});
      const keys = selecting.slice(from, from + BATCH);
      const rules = await this.#redis.hmget(related, ...keys);
      const count = selected.length;
      for (const [at, key] of keys.entries()) {
        if (run(() => (rules[at] ?? '').split('\n').some((text) => selects(text, change)))) selected.push(key);
        if (slice.isOver) await slice.giveWay();
      }
      charge(selected.length - count);
    }
    return [...new Set([...named, ...selected])];
  }

  /**
   * Reads the members of the index that begin with one of these texts, page by page, and returns the keys at their
   * ends.
   * @param run see `LookupBudget`: a lookup without time left reads no page.
   * @param charge called with the number of keys of each page. Default: they are not charged.
   */
  async #keysAfter(
    starts: readonly string[],
    run: LookupBudget['run'],
    charge: (count: number) => void = () => {},
  ): Promise<string[]> {
    const found = await Promise.all(
      starts.map(async (start) => {
        const keys: string[] = [];
        const end = `(${start.slice(0, -1)}\v`;
        for (let from = `[${start}`; ;) {
          run(() => {});
          const members = await this.#redis.zrangebylex(this.#keys.relatedIndex, from, end, 'LIMIT', 0, PAGE);
          run(() => members.forEach((member) => keys.push(member.slice(start.length))));
          charge(members.length);
          if (members.length < PAGE) return keys;
          from = `(${members.at(-1)}`;
        }
      }),
    );
    return found.flat();
  }

  /** The kinds of all rules: `apiVersion/Kind`, each once, and `MAX_RELATED_KINDS` at most. */
  async kinds(): Promise<string[]> {
    return (await this.#relatedKinds([this.#keys.relatedIndex], [MAX_RELATED_KINDS])) as string[];
  }

  /**
   * The keys with a rule, page by page, so that the many keys of one controller do not hold up Redis. A key with
   * several rules may come several times.
   * @param kind of the rules. Default: any.
   */
  async *keys(kind?: string): AsyncGenerator<string[]> {
    const end = kind === undefined ? '+' : `(${kind}\v`;
    for (let from = kind === undefined ? '-' : `[${kind}\n`; ;) {
      const members = await this.#redis.zrangebylex(this.#keys.relatedIndex, from, end, 'LIMIT', 0, PAGE);
      if (members.length === 0) return;
      yield [...new Set(members.map((member) => member.slice(member.lastIndexOf('\n') + 1)))];
      from = `(${members.at(-1)}`;
    }
  }

  /**
   * The kinds that no description names and that the leader has in the cache. Each has the state of its views when the
   * keys with a rule of the kind were queued; '' before that.
   */
  async views(): Promise<ReadonlyMap<string, string>> {
    return new Map(Object.entries(await this.#redis.hgetall(this.#keys.relatedViews)));
  }

  async setView(kind: string, state: string): Promise<void> {
    await this.#redis.hset(this.#keys.relatedViews, kind, state);
  }

  async removeView(kind: string): Promise<void> {
    await this.#redis.hdel(this.#keys.relatedViews, kind);
  }
}

/** Encodes a rule so that equal rules have equal texts, whatever the order of their fields and names. */
function canonical({ apiVersion, kind, namespace, names, labelSelector }: RelatedRule): string {
  return JSON.stringify({
    apiVersion,
    kind,
    namespace,
    names: names && [...new Set(names)].toSorted(),
    labelSelector: labelSelector && inOrder(labelSelector),
  });
}

function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(fields.map(([name, each]) => [name, inOrder(each)]));
}

/** Whether a rule without names matches. */
function selects(text: string, { kind, namespace, labels }: RelatedChange): boolean {
  if (text === '') return false;
  const rule = JSON.parse(text) as RelatedRule;
  if (rule.names || formatKind(rule) !== kind) return false;
  if (rule.namespace !== undefined && rule.namespace !== namespace) return false;
  return !rule.labelSelector || !labels || matchesLabels(rule.labelSelector, labels);
}
