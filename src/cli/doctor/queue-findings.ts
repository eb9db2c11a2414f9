import { type Clock, silentLogger } from '../../core/index.ts';
import { POSITION, viewKeys } from '../../contract/cache-layout.ts';
import { GatewayClock } from '../../gateway/process/gateway-clock.ts';
import { CONTROLLER_FIELD, removalOf } from '../../gateway/election/registry-fields.ts';
import { GONE_MS, type Replica, replicasIn } from '../../gateway/election/replica-record.ts';
import type { Redis } from '../../ground/redis/redis.ts';
import { redisLocation, type RedisLocation } from '../../ground/redis/redis-location.ts';
import {
  controllerState,
  type ControllerStateWord,
  isWell,
} from '../../gateway/controller/running/controller-state.ts';
import { KEY_LISTS, type KeyList } from '../../gateway/controller/workqueue/key-status.ts';
import { queueKeys } from '../../gateway/controller/workqueue/queue-keys.ts';
import { RedisInspector } from '../../gateway/controller/workqueue/records/redis-inspector.ts';
import type { PauseSummary } from '../../gateway/controller/workqueue/work-queue.ts';
import type { Diagnoses } from './diagnosis.ts';

/** A busy gateway runs a due key within this time, so a longer delay has another cause. */
const DUE_MS = 60_000;

/** One controller's queue in Redis. */
export interface JudgedQueue extends PauseSummary {
  readonly controller: string;
  readonly sizes: Readonly<Record<KeyList, number>>;
  /** For how long the first key has been due; undefined: none is. */
  readonly oldestDueMs: number | undefined;
}

/** Reports the views and queues of one cluster in Redis, whether or not a gateway runs. */
export async function checkQueues(
  findings: Diagnoses,
  redis: Redis,
  { keyPrefix, clusterId }: { readonly keyPrefix: string; readonly clusterId: string },
): Promise<void> {
  const location = redisLocation(redis, keyPrefix, clusterId);
  const clock = new GatewayClock();
  await clock.continueFrom(redis, location.registryKey, silentLogger);
  const prefixes = await redis.smembers(location.viewsKey);
  for (const prefix of prefixes.toSorted()) await checkView(findings, redis, prefix);
  const registry = await redis.hgetall(location.registryKey);
  const controllers = controllersIn(registry);
  judgeReplicas(findings, replicasIn(registry, clock.now()), controllers);
  for (const name of controllers) judgeQueue(findings, await readQueue(location, name, clock));
  if (prefixes.length + controllers.length === 0) {
    findings.ok('no views and no queues: no gateway has run for this cluster yet, or it had no functions');
  }
}

async function checkView(findings: Diagnoses, redis: Redis, prefix: string): Promise<void> {
  const keys = viewKeys(prefix);
  const [fields, complete, wakeups] = await Promise.all([
    redis.hlen(keys.objects),
    redis.hexists(keys.objects, POSITION),
    redis.xlen(keys.outbox),
  ]);
  // {PREFIX:v1:CLUSTER:KIND:SETTINGS}
  const kind = prefix.split(':').at(-2) ?? prefix;
  const text = `view ${kind}: ${fields - complete} objects, ${wakeups} wakeups in the outbox`;
  if (complete === 1) findings.ok(text);
  else findings.warning(`${text}, and it is not complete: the gateway has not listed it yet, or cannot`);
}

/** @param controllers the controllers that have queues, which only a gateway runs. */
export function judgeReplicas(findings: Diagnoses, replicas: readonly Replica[], controllers: readonly string[]): void {
  if (replicas.length === 0) {
    if (controllers.length === 0) return;
    return findings.warning(`no gateway was heard of in the last ${GONE_MS / 1000} s, so no function runs: start one`);
  }
  const names = replicas.map(({ name, role, version }) => `${name} (${role}, ${version})`);
  findings.ok(`gateways that were heard of in the last ${GONE_MS / 1000} s: ${names.join(', ')}`);
}

function controllersIn(registry: Readonly<Record<string, string>>): string[] {
  return Object.entries(registry)
    .filter(([field, value]) => field.startsWith(CONTROLLER_FIELD) && !removalOf(value))
    .map(([field]) => field.slice(CONTROLLER_FIELD.length))
    .toSorted();
}

async function readQueue(location: RedisLocation, controller: string, clock: Clock): Promise<JudgedQueue> {
  const own = { clock, passed: async () => false };
  const inspector = new RedisInspector(location.redis, queueKeys(location, controller), own);
  return { controller, ...(await inspector.levels()) };
}

const listHint = (controller: string): string => `levelhook get keys ${controller} shows them`;
const resumeHint = (controller: string): string => `levelhook resume ${controller} ends that`;
const REMEDIES: Partial<Record<ControllerStateWord, (controller: string) => string>> = {
  'dead letters': listHint,
  failing: listHint,
  paused: resumeHint,
  'waits for recovery': () => 'until runs without a record are over, which ends by itself',
};

/** The state of the controller, as far as Redis knows it, and the facts that the word does not say. */
export function judgeQueue(findings: Diagnoses, queue: JudgedQueue): void {
  const { controller, sizes: keys, pauses, morePauses, pausedObjects, oldestDueMs } = queue;
  const sizes = KEY_LISTS.map((list) => `${keys[list]} ${list}`).join(', ');
  // Gateways alone know problems, remarks and the circuit.
  const notes = { problems: [], remarks: [], isStarting: false, circuit: undefined };
  const word = controllerState({ ...notes, pauses, pausedObjects, sizes: keys });
  const remedy = REMEDIES[word];
  const hint = remedy === undefined ? '' : `: ${remedy(controller)}`;
  findings.add(isWell(word) ? 'ok' : 'warning', `queue ${controller}: ${word}, ${sizes}${hint}`);
  const scopes = pauses.map(({ scope }) => scope);
  if (scopes.includes('controller') && word !== 'paused') {
    findings.warning(`queue ${controller} is paused: ${resumeHint(controller)}`);
  }
  const [namespaces = 0, single = 0] = ['namespace/', 'key/'].map(
    (kind) => scopes.filter((scope) => scope.startsWith(kind)).length,
  );
  if (namespaces + single + pausedObjects > 0) {
    const more = morePauses > 0 ? `${morePauses} further namespaces and keys, ` : '';
    const parts = `${namespaces} namespaces, ${single} keys, ${more}and ${pausedObjects} objects by their annotation`;
    findings.warning(`queue ${controller} is paused for ${parts}`);
  }
  if (oldestDueMs !== undefined && oldestDueMs > DUE_MS) {
    const seconds = Math.round(oldestDueMs / 1000);
    findings.warning(`queue ${controller} has a key that is due for ${seconds} s: see whether a gateway runs`);
  }
}
