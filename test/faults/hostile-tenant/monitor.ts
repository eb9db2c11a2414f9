import { compareResourceVersions } from '../../../src/core/index.ts';
import type { Observer } from '../../harness/observer.ts';
import { MOST_SLOWDOWN } from '../../harness/pace.ts';
import { TestProcess } from '../../harness/process.ts';
import type { Victim } from './victim.ts';

/** A write to an object of the victim has been answered. */
export interface Changed {
  readonly msg: 'changed';
  /** Of the ConfigMap that it must wake. */
  readonly key: string;
  readonly object: string;
  readonly resourceVersion: string;
  readonly atMs: number;
}

/** A new object of the victim, which its function must review, was tried. */
export interface Reviewed {
  readonly msg: 'reviewed';
  /** Why it was refused; '' if it was not. */
  readonly error: string;
  readonly atMs: number;
}

/** The apiserver has told of it to an ordinary watch. */
export interface Told {
  readonly msg: 'told';
  readonly object: string;
  readonly resourceVersion: string;
  readonly atMs: number;
}

/** The gateway was asked how it is. */
export interface Polled {
  readonly msg: 'polled';
  readonly path: '/livez' | '/readyz';
  /** 0: no answer. */
  readonly status: number;
  readonly tookMs: number;
  readonly atMs: number;
  /** Of an answer that is not 200. */
  readonly text: string;
}

/** The monitor's process had no processor: the machine stood still, or others had it. */
export interface Lagged {
  readonly msg: 'lagged';
  readonly fromMs: number;
  readonly toMs: number;
}

/** What the processors gave to a program that computed for a moment, beside the gateway. */
export interface Paced {
  readonly msg: 'paced';
  /** How much longer it took than on a processor of its own; 1 is as fast. */
  readonly slowdown: number;
  readonly atMs: number;
}

/**
 * A change of the victim's must be seen by its function within this time, of the later of its write and its watch
 * event. This limit and the next are longer, by the measured slowdown, while other programs take the processors.
 */
export const SEEN_WITHIN_MS = 2000;
const LIVE_WITHIN_MS = 1000;
/** Paces within this time before and after count as those of a moment. */
const PACE_AROUND_MS = 1500;
/** A gateway that stands still must say so within this time. */
export const TOLD_WITHIN_MS = 60_000;

export interface Findings {
  readonly violations: readonly string[];
  /** What came later than the limits, and is explained by the processors' pace or by a standstill. */
  readonly excused: readonly string[];
  /** Changes that were compared with what the function saw. */
  readonly seen: number;
  readonly slowestMs: number;
  /** A change is late and still unseen. */
  readonly waiting: boolean;
  /** New objects of the victim that were reviewed, or should have been. */
  readonly reviews: number;
  readonly polls: number;
  readonly slowestPollMs: number;
  readonly notReadyMs: number;
  readonly slowdown: number;
}

/** Looks all the time whether a victim is served as if it were alone. */
export class Monitor {
  readonly #process: TestProcess;
  readonly #observers: readonly Observer[];
  readonly #gateway: TestProcess;
  readonly #namespace: string;

  private constructor(from: {
    process: TestProcess;
    observers: readonly Observer[];
    gateway: TestProcess;
    namespace: string;
  }) {
    this.#process = from.process;
    this.#observers = from.observers;
    this.#gateway = from.gateway;
    this.#namespace = from.namespace;
  }

  /** @param observers functions that must see each change of the victim's objects. */
  static start(
    kubeconfig: string,
    { namespace, canary }: Pick<Victim, 'namespace' | 'canary'>,
    observers: readonly Observer[],
    gateway: { process: TestProcess; url: string },
  ): Monitor {
    const program = 'test/faults/hostile-tenant/monitor-program.ts';
    const process = new TestProcess(program, [kubeconfig, namespace, canary, gateway.url], {});
    return new Monitor({ process, observers, gateway: gateway.process, namespace });
  }

  get process(): TestProcess {
    return this.#process;
  }

  /** @param sinceMs changes and polls before this do not count; neither do changes that are not yet late. */
  findings(sinceMs = 0): Findings {
    const nowMs = Date.now();
    const told = new Map(this.#lines<Told>('told').map((each) => [idOf(each), each.atMs]));
    const paces = this.#lines<Paced>('paced').filter(({ atMs }) => atMs >= sinceMs);
    // The slowdown is looked up for the few that need it: an hour has tens of thousands of changes, and of paces.
    const isWithin = (limitMs: number, ms: number, fromMs: number, toMs = fromMs + ms): boolean =>
      ms <= limitMs || ms <= limitMs * this.slowdown(fromMs, toMs);
    const violations: string[] = [];
    const excused: string[] = [];
    const delays: number[] = [];
    let waiting = false;
    for (const { name, sightings } of this.#observers.map((each) => ({
      name: each.name,
      sightings: sightingsOf(each),
    }))) {
      for (const change of this.#lines<Changed>('changed')) {
        if (change.atMs < sinceMs) continue;
        const fromMs = Math.max(change.atMs, told.get(idOf(change)) ?? 0);
        const seenAtMs = sightings(change);
        if (seenAtMs === undefined && nowMs - fromMs <= SEEN_WITHIN_MS) continue;
        const lateMs = (seenAtMs ?? nowMs) - fromMs;
        delays.push(lateMs);
        if (lateMs <= SEEN_WITHIN_MS) continue;
        const runningMs = lateMs - this.standstillMs(fromMs, fromMs + lateMs);
        const pace = `while everything took ${this.#pace(fromMs, fromMs + lateMs).toFixed(1)} times as long`;
        const how = `${seenAtMs === undefined ? 'not seen for' : 'seen after'} ${lateMs} ms, ${pace}`;
        const wakeup = `wakeup of ${name}: ${change.object} at ${change.resourceVersion} was ${how}`;
        if (isWithin(SEEN_WITHIN_MS, runningMs, fromMs, fromMs + lateMs)) {
          excused.push(wakeup);
          continue;
        }
        waiting ||= seenAtMs === undefined;
        violations.push(wakeup);
        if (lateMs > TOLD_WITHIN_MS + SEEN_WITHIN_MS && !this.#saidSo(fromMs)) {
          violations.push(`silence: ${change.object} was not seen by ${name} for ${lateMs} ms while /readyz was ok`);
        }
      }
    }
    violations.push(...this.#strangeWakeups());
    const polls = this.#lines<Polled>('polled').filter(({ atMs }) => atMs >= sinceMs);
    const counted = polls.filter(({ path }) => path === '/livez');
    for (const { status, tookMs, text, atMs } of counted) {
      if (status === 200 && tookMs <= LIVE_WITHIN_MS) continue;
      const fromMs = atMs - tookMs;
      const runningMs = tookMs - this.standstillMs(fromMs, atMs);
      const isExcused = status === 200 && isWithin(LIVE_WITHIN_MS, runningMs, fromMs, atMs);
      const answer = `livez: answered ${status === 0 ? text : status} after ${Math.round(tookMs)} ms`;
      (isExcused ? excused : violations).push(answer);
    }
    const reviews = this.#lines<Reviewed>('reviewed').filter(({ atMs }) => atMs >= sinceMs);
    for (const { error } of reviews) if (error !== '') violations.push(`review: ${error}`);
    if (!this.#gateway.alive) violations.push('exit: the gateway has ended');
    if (!this.#process.alive) violations.push(`the monitor has ended: ${this.#process.output.slice(-500)}`);
    return {
      violations,
      excused,
      seen: delays.length,
      waiting,
      slowestMs: Math.round(Math.max(0, ...delays)),
      reviews: reviews.length,
      polls: counted.length,
      slowestPollMs: Math.round(Math.max(0, ...counted.map(({ tookMs }) => tookMs))),
      notReadyMs: notReadyMs(polls.filter(({ path }) => path === '/readyz')),
      slowdown: Math.max(1, ...paces.map((each) => each.slowdown)),
    };
  }

  /** Runs of the victim's keys for an object of another namespace, whatever UIDs and names it copied. */
  #strangeWakeups(): string[] {
    return this.#observers.flatMap((observer) =>
      strangeReasons(this.#namespace, observer.seen()).map((reason) => `stranger: ${observer.name} ran ${reason}`),
    );
  }

  /**
   * The longest part of that time in which the monitor's process had no processor. Short ones are not added up: the
   * slowdown has them.
   */
  standstillMs(fromMs: number, toMs: number): number {
    return this.#lines<Lagged>('lagged').reduce(
      (most, each) => Math.max(most, Math.min(toMs, each.toMs) - Math.max(fromMs, each.fromMs)),
      0,
    );
  }

  /** By how much everything took longer at that time because other programs took the processors: at least 1. */
  slowdown(fromMs: number, toMs: number): number {
    return Math.min(MOST_SLOWDOWN, this.#pace(fromMs, toMs));
  }

  /** The same, whatever it is. */
  #pace(fromMs: number, toMs: number): number {
    return this.#lines<Paced>('paced')
      .filter(({ atMs }) => atMs >= fromMs - PACE_AROUND_MS && atMs <= toMs + PACE_AROUND_MS)
      .reduce((most, each) => Math.max(most, each.slowdown), 1);
  }

  /** What `/readyz` said when it was not ok, each text once. */
  complaints(): string[] {
    return [
      ...new Set(this.#lines<Polled>('polled').flatMap(({ path, text }) => (path === '/readyz' && text ? [text] : []))),
    ];
  }

  #saidSo(fromMs: number): boolean {
    return this.#lines<Polled>('polled').some(
      ({ path, status, atMs }) => path === '/readyz' && status !== 200 && atMs >= fromMs,
    );
  }

  #lines<T extends { msg: string }>(msg: T['msg']): T[] {
    return this.#process.lines.filter((line) => line['msg'] === msg) as unknown as T[];
  }
}

/** The runs of a namespace's keys that an object of another namespace has caused. */
export function strangeReasons(
  namespace: string,
  runs: readonly { readonly key: string; readonly reasons: readonly { readonly object?: string }[] }[],
): string[] {
  const isStranger = (object: string): boolean => / .+\//.test(object) && !object.includes(` ${namespace}/`);
  return runs
    .filter(({ key }) => key.startsWith(`${namespace}/`))
    .flatMap(({ key, reasons }) =>
      reasons.flatMap(({ object = '' }) => (isStranger(object) ? [`${key} for ${object}`] : [])),
    );
}

const idOf = ({ object, resourceVersion }: Told | Changed): string => `${object}@${resourceVersion}`;

const isAtLeast = (version: string, wanted: string): boolean => compareResourceVersions(version, wanted) >= 0;

function notReadyMs(polls: readonly Polled[]): number {
  let total = 0;
  for (const [at, poll] of polls.entries()) {
    const before = polls[at - 1];
    if (before && poll.status !== 200) total += poll.atMs - before.atMs;
  }
  return total;
}

/** When a function first ran for a change, or for a later one of the same object. */
function sightingsOf(observer: Observer): (change: Changed) => number | undefined {
  const seen = new Map<string, { readonly version: string; readonly atMs: number }[]>();
  // Keeps a run that has seen a later version than all before it, so that the versions of an object grow.
  const add = (id: string, version: string, atMs: number): void => {
    const before = seen.get(id) ?? [];
    const last = before.at(-1);
    if (!last || compareResourceVersions(version, last.version) > 0) before.push({ version, atMs });
    seen.set(id, before);
  };
  for (const { key, reasons, resourceVersion, startedAtMs } of observer.seen()) {
    for (const { object, resourceVersion: version } of reasons) {
      if (version !== undefined) add(`${key} ${object}`, version, startedAtMs);
    }
    if (resourceVersion !== null) add(`${key} v1/ConfigMap ${key}`, resourceVersion, startedAtMs);
  }
  return ({ key, object, resourceVersion }) => {
    const versions = seen.get(`${key} ${object}`) ?? [];
    let [from, to] = [0, versions.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (isAtLeast(versions[middle]?.version ?? '', resourceVersion)) to = middle;
      else from = middle + 1;
    }
    return versions[from]?.atMs;
  };
}
