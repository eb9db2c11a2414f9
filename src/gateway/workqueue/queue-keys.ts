/** The Redis keys of one queue. All share a hash tag, with BullMQ's own, so that scripts may touch them together. */
export interface QueueKeys {
  /** BullMQ's `prefix` option; its keys are `<prefix>:<queue name>:*`. */
  readonly prefix: string;
  /** HASH: `incarnation`, `runId`, `initial`, `resyncAt`, `lowReason`. */
  readonly queue: string;
  /** ZSET key -> due time: requeues and backoffs. A timer ends only with a run. */
  readonly timers: string;
  /** ZSET key -> deadline plus margin of its run in flight. */
  readonly flights: string;
  /** ZSET key -> time of its add: low-priority keys. */
  readonly backlog: string;
  /** Counter of runs: the source of fencing numbers. */
  readonly runs: string;
  /** BullMQ's list of waiting jobs. */
  readonly waiting: string;
  /** What a key is appended to, to name its record (HASH). */
  readonly recordPrefix: string;
}

export function queueKeys(scope: { keyPrefix: string; clusterId: string; name: string }): QueueKeys {
  const prefix = `{${scope.keyPrefix}:v1:${scope.clusterId}:queue:${scope.name}}`;
  return {
    prefix,
    queue: `${prefix}:queue`,
    timers: `${prefix}:timers`,
    flights: `${prefix}:flights`,
    backlog: `${prefix}:backlog`,
    runs: `${prefix}:runs`,
    waiting: `${prefix}:${scope.name}:wait`,
    recordPrefix: `${prefix}:key:`,
  };
}
