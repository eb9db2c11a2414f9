import type { PauseScope } from './key-status.ts';

/**
 * The Redis keys of one queue. All share a hash tag, with BullMQ's own, so that scripts may touch them together: they
 * build these names from the prefix.
 *
 * The record of a key holds its state, and sorted sets order the keys by time. There are several sets, because a key
 * may wait for several times that change independently, and a sorted set has one score for each key.
 */
export interface QueueKeys {
  /** BullMQ's `prefix` option; its keys are `<prefix>:<queue name>:*`. */
  readonly prefix: string;
  /**
   * KEYS of a script: the prefix, and a second name that is not in use either. A Redis Cluster that moves the slot
   * refuses a script if it lacks one of several names. With one name, the new node would execute the script without the
   * data that is still on the old one.
   */
  readonly script: readonly [prefix: string, missing: string];
  /** HASH: `incarnation`, `owner`, `runId`, `initial`, `resyncAt`, `lowReason`, `recorded`. */
  readonly queue: string;
  /** ZSET key -> due time: requeues and backoffs. A timer ends only with a run. */
  readonly timers: string;
  /**
   * ZSET key -> due time: keys that were added and wait for their adds to pause. Apart from `timers`, because the next
   * add moves this time and must leave a requeue or a backoff of the key where it is.
   */
  readonly debounced: string;
  /** ZSET key -> deadline plus margin of its run in flight. */
  readonly inFlight: string;
  /**
   * ZSET key -> time of its add: low-priority keys, and keys whose pause has ended. Apart from `queued`, because these
   * keys have no job: a start takes its first keys when slots are left.
   */
  readonly backlog: string;
  /**
   * ZSET key -> time since which it is ready to run. The key has not started yet: it has a job, or a gateway is about
   * to start it.
   */
  readonly queued: string;
  /**
   * ZSET key of a run that holds a slot -> time at which the slot expires, unless its gateway extends it. Apart from
   * `inFlight`, because a run that goes on after its 202 has no slot, and a slot expires 12 s after its gateway's end
   * while the key stays blocked until the deadline.
   */
  readonly slots: string;
  /**
   * Prefix of a gateway's STRING, followed by its id: the nonce of its last start that has taken low-priority keys, and
   * these keys.
   */
  readonly takenPrefix: string;
  /** Prefix of a gateway's STRING, followed by its id: how many of its runs have become busy, see `OwnRuns.busies`. */
  readonly busiesPrefix: string;
  /** ZSET key -> time of its last run: keys with nothing to do whose record has a barrier. */
  readonly resting: string;
  /** Counter of runs: the source of fencing numbers. */
  readonly runs: string;
  /** STRING: when the token bucket is full again. */
  readonly bucket: string;
  /** HASH scope -> since when it is paused. */
  readonly pauses: string;
  /**
   * ZSET scope -> time at which its pause ends by itself, inf for never: the pauses that persons and recovery have set.
   * There may be many more pauses of objects, which are in `pauses` alone.
   */
  readonly pauseEnds: string;
  /** Prefix of a ZSET key -> time: keys that wait for the end of a pause, see `waitingIn`. */
  readonly pausedPrefix: string;
  /** ZSET key -> time at which it became a dead letter. */
  readonly dead: string;
  /** Prefix of a key's past outcomes (LIST). */
  readonly historyPrefix: string;
  /**
   * ZSET key -> when its past outcomes expire. Dead letters are not in it: their outcomes do not expire before they run
   * again.
   */
  readonly histories: string;
  /** ZSET: key that has failed and is tried again -> time of its last failure. */
  readonly failing: string;
  /** STREAM: the last runs of all keys, several in each entry, one in each line. */
  readonly recent: string;
  /** HASH interval -> counts of the interval: the samples of the last hour. */
  readonly samples: string;
  /** Prefix of BullMQ's own names. */
  readonly bullmqPrefix: string;
  /** BullMQ's metadata of the queue (HASH). */
  readonly settings: string;
  /** BullMQ's list of waiting jobs. */
  readonly waiting: string;
  /** BullMQ's list of active jobs. */
  readonly active: string;
  /**
   * Prefix of a key's record (HASH): `run`, `deadline`, `nonce`, `busy`, `back`, `dirty`, `barrier`, `barrierAt`,
   * `heldAt`, `error`, `failures`, `dead`, `reasons`, `queuedAt`, `tokenAt`.
   */
  readonly recordPrefix: string;
  /**
   * Prefix of the writes that a key's run has made through the gateway (HASH): `run`, `ended`, `bytes`, `more`, and for
   * each write `w` and its id.
   */
  readonly writesPrefix: string;
  /** HASH key -> the rules of its related objects: JSON, one in each line. */
  readonly related: string;
  /** ZSET of `kind`, `namespace`, `name` (each may be empty) and key, joined by line feeds: the rules by object. */
  readonly relatedIndex: string;
  /** HASH kind -> the state of its views when the keys with a rule of the kind were queued; '' before that. */
  readonly relatedViews: string;
}

export function queueKeys(cluster: { keyPrefix: string; clusterId: string }, name: string): QueueKeys {
  const prefix = `{${cluster.keyPrefix}:v1:${cluster.clusterId}:queue:${name}}`;
  return {
    prefix,
    script: [prefix, `${prefix}:`],
    queue: `${prefix}:queue`,
    timers: `${prefix}:timers`,
    debounced: `${prefix}:debounced`,
    inFlight: `${prefix}:in-flight`,
    backlog: `${prefix}:backlog`,
    queued: `${prefix}:queued`,
    slots: `${prefix}:slots`,
    takenPrefix: `${prefix}:taken:`,
    busiesPrefix: `${prefix}:busies:`,
    resting: `${prefix}:resting`,
    runs: `${prefix}:runs`,
    bucket: `${prefix}:bucket`,
    pauses: `${prefix}:pauses`,
    pauseEnds: `${prefix}:pause-ends`,
    pausedPrefix: `${prefix}:paused:`,
    dead: `${prefix}:dead`,
    historyPrefix: `${prefix}:history:`,
    histories: `${prefix}:histories`,
    failing: `${prefix}:failing`,
    recent: `${prefix}:recent`,
    samples: `${prefix}:samples`,
    bullmqPrefix: `${prefix}:${name}:`,
    settings: `${prefix}:${name}:meta`,
    waiting: `${prefix}:${name}:wait`,
    active: `${prefix}:${name}:active`,
    recordPrefix: `${prefix}:key:`,
    writesPrefix: `${prefix}:writes:`,
    related: `${prefix}:related`,
    relatedIndex: `${prefix}:related-index`,
    relatedViews: `${prefix}:related-views`,
  };
}

/** The set of the keys that wait for the end of a pause of this scope. Keys that are paused one by one share a set. */
export function waitingIn({ pausedPrefix }: Pick<QueueKeys, 'pausedPrefix'>, scope: PauseScope): string {
  const kind = ['object', 'key'].find((each) => scope.startsWith(`${each}/`));
  return pausedPrefix + (kind ?? scope);
}

/** The scopes that cover a key, in the order in which they are checked. */
export function scopesOf(key: string): PauseScope[] {
  const slash = key.indexOf('/');
  const namespace: PauseScope[] = slash > 0 ? [`namespace/${key.slice(0, slash)}`] : [];
  return ['controller', 'recovery', ...namespace, `object/${key}`, `key/${key}`];
}
