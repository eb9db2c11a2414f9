import type { TracedRun } from '../../core/index.ts';
import { loadScript, type Script } from '../../ground/redis/redis.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { GroupCommit } from '../controller/workqueue/worker/group-commit.ts';

/** The IDs of a span, as hexadecimal digits. */
export interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** A run on the other side of a change. */
export interface LinkedSpan extends SpanIds {
  readonly change: string;
  /** `woken_by`: the linked run has made the change. `has_woken`: it was woken by the change. */
  readonly relation: 'woken_by' | 'has_woken';
}

interface Side {
  readonly change: string;
  readonly mark: Mark;
  readonly span: SpanIds;
}

/** How a span in Redis begins: its run has made the change, or was woken by it. */
type Mark = 'made' | 'woken';

/** Changes that make a hash full, of some 300 bytes each: two hashes take 3 MB, and 15 MB at most. */
const MOST_CHANGES = 5000;
/** An object's kind and name, and a version: a function may name a version of any length. */
const MOST_CHARACTERS = 600;
const MOST_SPANS = 9;
/** The links of one run, whose function decides how many writes it names. */
const MOST_LINKS = 32;
/** Longer than a key waits in a gateway that is not overloaded. */
const KEEP_SECONDS = 600;
/** More runs and changes at a time are not linked. */
const MOST_WAITING = 5000;

/**
 * Which runs have made a change of an object and which were woken by it, in the order in which their traces were
 * recorded, so that the later one of two can link the other. It is in Redis, because one gateway may send the run that
 * writes and another one the run that is woken. Two hashes hold the changes of the last minutes: a full one takes the
 * place of the other. While Redis is away or takes too long, runs are not linked; nothing waits for it.
 */
export class TracedChanges {
  readonly #redis: RedisLocation['redis'];
  readonly #keys: readonly string[];
  readonly #script: Script;
  readonly #sides = new GroupCommit((sides: readonly Side[]) => this.#commit(sides));
  #waiting = 0;

  constructor({ redis, registryKey }: Pick<RedisLocation, 'redis' | 'registryKey'>) {
    this.#redis = redis;
    this.#keys = [`${registryKey}:changes`, `${registryKey}:changes:full`];
    this.#script = loadScript(redis, import.meta.url, 'join-changes');
  }

  /** Records the span of a run. Never rejects. @returns the runs that were recorded before and belong to it. */
  async join({ wokenBy, wrote }: Pick<TracedRun, 'wokenBy' | 'wrote'>, span: SpanIds): Promise<readonly LinkedSpan[]> {
    const woken = wokenBy.map((change): Side => ({ change, mark: 'woken', span }));
    const made = wrote.map((change): Side => ({ change, mark: 'made', span }));
    const linked = await Promise.all([...woken, ...made].map((side) => this.#join(side)));
    return linked.flat().slice(0, MOST_LINKS);
  }

  async #join(side: Side): Promise<readonly LinkedSpan[]> {
    if (side.change.length > MOST_CHARACTERS) return [];
    if (this.#redis.status !== 'ready' || this.#waiting >= MOST_WAITING) return [];
    this.#waiting += 1;
    try {
      return await this.#sides.submit(side);
    } catch {
      return [];
    } finally {
      this.#waiting -= 1;
    }
  }

  async #commit(sides: readonly Side[]): Promise<readonly (readonly LinkedSpan[])[]> {
    const pairs = sides.flatMap(({ change, mark, span }) => [change, `${mark}-${span.traceId}-${span.spanId}`]);
    const answer = await this.#script(this.#keys, [MOST_CHANGES, MOST_SPANS, KEEP_SECONDS, ...pairs]);
    return (answer as readonly string[]).map((spans, at) => {
      const side = sides[at];
      return side ? spans.split(' ').flatMap((text) => linkedSpan(text, side)) : [];
    });
  }
}

/** The span of Redis, if it is on the other side of the change. */
function linkedSpan(text: string, { change, mark }: Side): readonly LinkedSpan[] {
  const [other, traceId, spanId] = text.split('-');
  if (other === mark || traceId === undefined || spanId === undefined) return [];
  return [{ change, relation: mark === 'woken' ? 'woken_by' : 'has_woken', traceId, spanId }];
}
