import type { PauseScope } from './key-status.ts';

/** See `queueKeys`. */
export type QueueKeys = ReturnType<typeof queueKeys>;

/**
 * The Redis keys of one queue. All share a hash tag, with BullMQ's own, so that scripts may touch them together: they
 * build these names from the prefix.
 *
 * The record of a key holds its state, and sorted sets order the keys by time. There are several sets, because a key
 * may wait for several times that change independently, and a sorted set has one score for each key.
 */
export function queueKeys(cluster: { keyPrefix: string; clusterId: string }, name: string) {
  const prefix = `{${cluster.keyPrefix}:v1:${cluster.clusterId}:queue:${name}}`;
  return {
    /** BullMQ's `prefix` option; its keys are `<prefix>:<queue name>:*`. */
    prefix,
    /**
     * KEYS of a script: the prefix, and a second name that is not in use either. A Redis Cluster that moves the slot
     * refuses a script if it lacks one of several names. With one name, the new node would execute the script without
     * the data that is still on the old one.
     */
    script: [prefix, `${prefix}:`],
    /** HASH: `incarnation`, `owner`, `runId`, `initial`, `resyncAt`, `lowReason`, `recorded`. */
    queue: `${prefix}:queue`,
    /** ZSET key -> due time: requeues and backoffs. A timer ends only with a run. */
    timers: `${prefix}:timers`,
    /**
     * ZSET key -> due time: keys that were added and wait for their adds to pause. Apart from `timers`, because the
     * next add moves this time and must leave a requeue or a backoff of the key where it is.
     */
    debounced: `${prefix}:debounced`,
    /** ZSET key -> deadline plus margin of its run in flight. */
    inFlight: `${prefix}:in-flight`,
    /**
     * ZSET key -> time of its add: low-priority keys, and keys whose pause has ended. Apart from `queued`, because
     * these keys have no job: a start takes its first keys when slots are left.
     */
    backlog: `${prefix}:backlog`,
    /**
     * ZSET key -> time since which it is ready to run. The key has not started yet: it has a job, or a gateway is about
     * to start it.
     */
    queued: `${prefix}:queued`,
    /**
     * ZSET key of a run that holds a slot -> time at which the slot expires, unless its gateway extends it. Apart from
     * `inFlight`, because a run that goes on after its 202 has no slot, and a slot expires 12 s after its gateway's end
     * while the key stays blocked until the deadline.
     */
    slots: `${prefix}:slots`,
    /**
     * Prefix of a gateway's STRING, followed by its id: the nonce of its last start that has taken low-priority keys,
     * and these keys.
     */
    takenPrefix: `${prefix}:taken:`,
    /**
     * Prefix of a gateway's STRING, followed by its id: how many of its runs have become busy, see `OwnRuns.busies`.
     */
    busiesPrefix: `${prefix}:busies:`,
    /**
     * ZSET key -> time of its last run: keys with nothing to do whose record has a barrier. No start may ever come to
     * delete these barriers, and without this set `Upkeep` would have to read all records to find them.
     * In Redis it keeps the name of earlier releases, whose entries a new gateway has to find.
     */
    idle: `${prefix}:resting`,
    /** Counter of runs: the source of fencing numbers. */
    runs: `${prefix}:runs`,
    /** STRING: when the token bucket is full again. */
    bucket: `${prefix}:bucket`,
    /** HASH scope -> since when it is paused. */
    pauses: `${prefix}:pauses`,
    /**
     * ZSET scope -> time at which its pause ends by itself, inf for never: the pauses that persons and recovery have
     * set. There may be many more pauses of objects, which are in `pauses` alone.
     */
    pauseEnds: `${prefix}:pause-ends`,
    /** Prefix of a ZSET key -> time: keys that wait for the end of a pause, see `waitingIn`. */
    pausedPrefix: `${prefix}:paused:`,
    /**
     * ZSET key -> time at which it became a dead letter. A dead letter need not be in any other set, so without this
     * one a count, a page or a replay of dead letters would have to read all records.
     */
    dead: `${prefix}:dead`,
    /** Prefix of a key's past outcomes (LIST). */
    historyPrefix: `${prefix}:history:`,
    /**
     * ZSET key -> when its past outcomes expire. They outlive the record of the key, so without this set a script could
     * not find them to weigh them. Dead letters are not in it: their outcomes do not expire before they run again.
     */
    histories: `${prefix}:histories`,
    /**
     * ZSET: key that has failed and is tried again -> time of its first failure. Apart from `timers`, because such a
     * key leaves `timers` when it runs or is paused, and `timers` has the requeues of keys that do well, too.
     */
    failing: `${prefix}:failing`,
    /** STREAM: the last runs of all keys, several in each entry, one in each line. */
    recent: `${prefix}:recent`,
    /** HASH interval -> counts of the interval: the samples of the last hour. */
    samples: `${prefix}:samples`,
    /** Prefix of BullMQ's own names. */
    bullmqPrefix: `${prefix}:${name}:`,
    /** BullMQ's metadata of the queue (HASH). */
    settings: `${prefix}:${name}:meta`,
    /** BullMQ's list of waiting jobs. */
    waiting: `${prefix}:${name}:wait`,
    /** BullMQ's list of active jobs. */
    active: `${prefix}:${name}:active`,
    /**
     * Prefix of a key's record (HASH): `run`, `deadline`, `nonce`, `busy`, `back`, `dirty`, `barrier`, `barrierAt`,
     * `heldAt`, `error`, `failures`, `dead`, `reasons`, `unsent`, `queuedAt`, `tokenAt`.
     */
    recordPrefix: `${prefix}:key:`,
    /**
     * Prefix of the writes that a key's run has made through the gateway (HASH): `run`, `ended`, `bytes`, `more`, and
     * for each write `w` and its id.
     */
    writesPrefix: `${prefix}:writes:`,
    /** HASH right -> when it was used last, by a function that writes through the gateway: see `UsedRights`. */
    rights: `${prefix}:rights`,
    /** HASH key -> the rules of its related objects: JSON, one in each line. */
    related: `${prefix}:related`,
    /** ZSET of `kind`, `namespace`, `name` (each may be empty) and key, joined by line feeds: the rules by object. */
    relatedIndex: `${prefix}:related-index`,
    /** HASH kind -> the state of its views when the keys with a rule of the kind were queued; '' before that. */
    relatedViews: `${prefix}:related-views`,
  } as const;
}

/** Whether BullMQ's keys of a queue of this name could be other keys of the queue, such as the record of a key. */
export function isReservedName(name: string): boolean {
  const { bullmqPrefix, ...others } = queueKeys({ keyPrefix: '', clusterId: '' }, name);
  return Object.values(others).flat().includes(bullmqPrefix);
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
