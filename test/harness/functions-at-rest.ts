import type { Redis } from '../../src/ground/redis/redis.ts';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import {
  createSetting,
  type Listening,
  startFunctionProcess,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from './levelhook.ts';
import { machineMs } from './machine-clock.ts';
import type { Started } from './started.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from './tenant.ts';

/** So many functions share a namespace, a ServiceAccount and a Secret. */
const PER_NAMESPACE = 100;
/** So many are declared at a time. */
const AT_ONCE = 20;

/** Requests and runs of each function, by its name. */
export interface FunctionCounts {
  readonly requests: Readonly<Record<string, number>>;
  readonly runs: Readonly<Record<string, number>>;
}

/** Many functions on one gateway, each with a ReconcileFunction and an object of its own, whose first run is over. */
export interface FunctionsAtRest {
  readonly gateway: Listening;
  readonly functions: Listening;
  /** From the first declaration until each function is ready and has run its object. */
  readonly registeredSeconds: number;
  readonly names: readonly string[];
  /** Changes the object of the function with this name. */
  change(name: string): Promise<void>;
  counts(): Promise<FunctionCounts>;
}

export interface FunctionsAtRestOptions {
  readonly started: Started;
  readonly cluster: Cluster;
  /** Of the gateway. */
  readonly kubeconfig: string;
  readonly redisUrl: string;
  readonly functions: number;
  /** More of the gateway's environment. */
  readonly variables?: Readonly<Record<string, string>>;
}

export async function startFunctionsAtRest(options: FunctionsAtRestOptions): Promise<FunctionsAtRest> {
  const { started, cluster, kubeconfig, redisUrl, variables } = options;
  const setting = createSetting({ kubeconfig, redisUrl });
  await installReconcileFunctions(cluster);
  const tenants: Tenant[] = [];
  for (let at = 0; at * PER_NAMESPACE < options.functions; at += 1) {
    const namespace = uniqueName('rest');
    await cluster.createNamespace(namespace);
    started.add(() => cluster.deleteNamespace(namespace));
    const tenant = await new Tenant(cluster, namespace).create();
    await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps'] }]);
    tenants.push(tenant);
  }
  const functions = tenants.flatMap((tenant, at) =>
    Array.from({ length: Math.min(PER_NAMESPACE, options.functions - at * PER_NAMESPACE) }, (_, number) => ({
      tenant,
      name: `function-${at * PER_NAMESPACE + number}`,
    })),
  );
  const namespaceOf = new Map(functions.map(({ tenant, name }) => [name, tenant.namespace]));
  await inTurn(functions, ({ tenant: { namespace }, name }) =>
    cluster.create(configMaps, { metadata: { namespace, name, labels: { function: name } }, data: { changes: '' } }),
  );
  const host = started.keep(
    await startFunctionProcess(setting, 'test/bench/rest/functions.ts', {
      variables: { FUNCTIONS: JSON.stringify(functions.map(({ tenant: { secret }, name }) => ({ name, secret }))) },
    }),
  );
  const settings = settingsFor(
    tenants.map(({ namespace }) => namespace),
    [host.url],
  );
  const gateway = started.keep(
    await startGateway(setting, [], {
      ...settings,
      // As it is by default.
      LEVELHOOK_REVIEW_SECONDS: '60',
      LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE: `${PER_NAMESPACE}`,
      LEVELHOOK_LOG_TRIGGERS: 'false',
      ...variables,
    }),
  );
  await untilReady(gateway.url);
  const fromMs = machineMs();
  await inTurn(functions, ({ tenant, name }) =>
    tenant.declare(name, {
      endpoint: { url: `${host.url}/${name}` },
      for: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        namespaces: [tenant.namespace],
        labelSelector: { matchLabels: { function: name } },
      },
    }),
  );
  const counts = async (): Promise<FunctionCounts> =>
    (await (await fetch(`${host.url}/counts`)).json()) as FunctionCounts;
  await eventually(
    async () => {
      const { runs } = await counts();
      if (Object.keys(runs).length < functions.length)
        throw new Error(`${Object.keys(runs).length} functions have run`);
      for (const { namespace } of tenants) {
        const { items } = await cluster.list(ReconcileFunction, namespace);
        const waiting = items.filter(({ status }) => !isReady(status?.conditions ?? []));
        const [first] = waiting;
        if (first) throw new Error(`${waiting.length} are not ready: ${JSON.stringify(first.status)}`);
      }
    },
    600_000,
    500,
  );
  const registeredSeconds = (machineMs() - fromMs) / 1000;
  await untilIdle(gateway.url, 120_000);
  return {
    gateway,
    functions: host,
    registeredSeconds,
    names: functions.map(({ name }) => name),
    counts,
    async change(name) {
      const key = { namespace: namespaceOf.get(name) ?? '', name };
      await cluster.patch(configMaps, key, { data: { changes: `${machineMs()}` } });
    },
  };
}

function isReady(conditions: readonly { readonly type: string; readonly status: string }[]): boolean {
  return ['Ready', 'Reachable'].every((type) =>
    conditions.some((each) => each.type === type && each.status === 'True'),
  );
}

async function inTurn<T>(all: readonly T[], work: (each: T) => Promise<unknown>): Promise<void> {
  const left = [...all];
  const one = async (): Promise<void> => {
    for (let each = left.shift(); each !== undefined; each = left.shift()) await work(each);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** Calls of each command since the start of Redis, including those within scripts. */
export async function commandCalls(redis: Redis): Promise<Map<string, number>> {
  const text = await redis.info('commandstats');
  return new Map(
    [...text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name = '', calls]) => [name, Number(calls)]),
  );
}

/** What has come to a map of counts since an earlier one, the most first; what has not changed is left out. */
export function sinceThen(before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>): [string, number][] {
  return [...now]
    .map(([name, count]): [string, number] => [name, count - (before.get(name) ?? 0)])
    .filter(([, count]) => count > 0)
    .toSorted(([, one], [, other]) => other - one);
}

export function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, each) => sum + each, 0);
}
