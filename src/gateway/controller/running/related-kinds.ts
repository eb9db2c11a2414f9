import { formatKind, type GroupVersionKind, messageOf, type Runtime } from '../../../core/index.ts';
import type { Description, WatchedDescription } from '../../../contract/index.ts';
import type { RelatedRules } from '../workqueue/records/related-rules.ts';
import { namespacesNamed } from './controller-source.ts';

export interface RelatedKindsOptions {
  readonly controller: string;
  readonly rules: Pick<RelatedRules, 'kinds'>;
  /** The kinds that the description names. */
  readonly declared: readonly GroupVersionKind[];
  /** The other kinds that the controller watches, because keys have named them. */
  readonly watched: readonly GroupVersionKind[];
  /** Whether the cluster serves a kind, and the gateway can cache it. */
  readonly isServed: (kind: GroupVersionKind) => Promise<boolean>;
  /** The controller has to be started anew, with other kinds. */
  readonly onOutdated: () => void;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
}

/** How often the kinds that keys name are read from Redis. */
const READ_EVERY_MS = 1000;
/** How often the cluster is asked for a kind again, and the same change of kinds is reported. */
const AGAIN_MS = 10_000;
/** How long a kind is watched that no key names any more. */
const GRACE_MS = 10 * 60_000;

/**
 * Finds out whether a controller whose runs name related objects of any kind has to watch other kinds: the cluster
 * serves a kind that a key names, or no key has named a watched kind for ten minutes.
 */
export class RelatedKinds {
  readonly #options: RelatedKindsOptions;
  readonly #declared: ReadonlySet<string>;
  /** When each watched kind was last named. */
  readonly #namedMs: Map<string, number>;
  /** The cluster's last answer about each kind that is named and not watched. */
  readonly #answers = new Map<string, { readonly isServed: boolean; readonly atMs: number }>();
  #reported = '';
  #reportedMs = 0;
  #isOutdated = false;

  constructor(options: RelatedKindsOptions) {
    this.#options = options;
    this.#declared = new Set(options.declared.map(formatKind));
    const now = options.runtime.clock.now();
    this.#namedMs = new Map(options.watched.map((kind) => [formatKind(kind), now]));
  }

  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** The watched kinds that a key has named in the last ten minutes. */
  get inUse(): GroupVersionKind[] {
    const { clock } = this.#options.runtime;
    const since = clock.now() - GRACE_MS;
    return this.#options.watched.filter((kind) => (this.#namedMs.get(formatKind(kind)) ?? 0) >= since);
  }

  /** Checks every second until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { controller, runtime } = this.#options;
    while (!signal.aborted) {
      await this.#check().catch((error: unknown) => {
        runtime.logger.debug({ controller, error: messageOf(error) }, 'related kinds could not be found, trying again');
      });
      await runtime.clock.sleep(READ_EVERY_MS, signal);
    }
  }

  async #check(): Promise<void> {
    const { rules, runtime, watched, onOutdated } = this.#options;
    const named = (await rules.kinds()).filter((kind) => !this.#declared.has(kind));
    const now = runtime.clock.now();
    for (const kind of named) if (this.#namedMs.has(kind)) this.#namedMs.set(kind, now);
    const found: string[] = [];
    for (const kind of named) if (!this.#namedMs.has(kind) && (await this.#isServed(kind, now))) found.push(kind);
    for (const kind of this.#answers.keys()) if (!named.includes(kind)) this.#answers.delete(kind);
    this.#isOutdated = found.length > 0 || this.inUse.length < watched.length;
    const report = JSON.stringify([found, this.inUse]);
    // A kind that the function may not read is found again at each check, so the same report is repeated after
    // `AGAIN_MS` only.
    if (!this.#isOutdated || (report === this.#reported && now < this.#reportedMs + AGAIN_MS)) return;
    this.#reported = report;
    this.#reportedMs = now;
    onOutdated();
  }

  async #isServed(kind: string, now: number): Promise<boolean> {
    const known = this.#answers.get(kind);
    if (known && now < known.atMs + AGAIN_MS) return known.isServed;
    // A kind whose API group is away counts as not served, so that the other kinds are still found.
    const isServed = await this.#options.isServed(parseKind(kind)).catch(() => false);
    this.#answers.set(kind, { isServed, atMs: now });
    return isServed;
  }
}

/** The reverse of `formatKind`. */
export function parseKind(text: string): GroupVersionKind {
  const slash = text.lastIndexOf('/');
  return { apiVersion: text.slice(0, slash), kind: text.slice(slash + 1) };
}

/**
 * The watches of a controller whose runs may name objects of any kind: of the kinds that keys have named, and of the
 * kinds that the description names in other roles, in the namespaces that it names there.
 */
export function relatedWatches(
  { for: reconciled, owns, watches, reads, relatedKinds }: Description,
  named: readonly GroupVersionKind[] = [],
): WatchedDescription[] {
  if (!relatedKinds) return [];
  const map = { by: 'related' } as const;
  const declared = Map.groupBy([reconciled, ...owns, ...watches, ...reads], formatKind);
  const own = [...declared.values()].flatMap((sources): WatchedDescription[] => {
    const [{ apiVersion, kind }] = sources as [GroupVersionKind];
    const isRelated = (each: WatchedDescription): boolean => each.map.by === 'related';
    if (watches.some((each) => sources.includes(each) && isRelated(each))) return [];
    const namespaces = namespacesNamed(sources, formatKind({ apiVersion, kind }));
    return [{ apiVersion, kind, map, ...(namespaces && { namespaces }) }];
  });
  return [...own, ...named.map(({ apiVersion, kind }) => ({ apiVersion, kind, map }))];
}
