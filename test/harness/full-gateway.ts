import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { RUN_OUTCOMES } from '../../src/gateway/controller/workqueue/history/past-run.ts';
import { KEY_LISTS } from '../../src/gateway/controller/workqueue/key-status.ts';
import { startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps, pods } from './cluster.ts';
import { fillQueue, type QueueContents } from './full-queue.ts';
import { createSetting, type Listening, type Setting, startGateway, untilReady } from './levelhook.ts';
import { startObservers } from './observer.ts';
import type { Started } from './started.ts';

/** How much a gateway has to show. */
export interface FullGatewaySize {
  /** At least 4. They have the names `controller-0` and so on, watch pods, and are paused. */
  readonly controllers: number;
  /** Keys that wait, over all controllers. Half of them wait in `controller-0`, half of these at low priority. */
  readonly waiting: number;
  /** Dead letters over all controllers. Half of them are of `controller-0`. */
  readonly dead: number;
  /** Runs in the history of each of the first four controllers. Some of the second and third have long errors. */
  readonly runs: number;
}

/** A gateway with many controllers, and their full queues in a Redis of its own. */
export interface FullGateway {
  readonly gateway: Listening;
  readonly redis: Redis;
  readonly redisPid: number;
  readonly setting: Setting;
}

export interface FullGatewayOptions {
  readonly started: Started;
  readonly cluster: Cluster;
  readonly kubeconfig: string;
  /** Its ConfigMaps are in the cache, because of one more controller, `browsed`. */
  readonly namespace: string;
  /** More functions, as a process with the setting of the gateway. Default: none. */
  readonly startFunction?: (setting: Setting) => Promise<Listening>;
}

const CLUSTER = 'full';

export async function startFullGateway(size: FullGatewaySize, options: FullGatewayOptions): Promise<FullGateway> {
  const { started, kubeconfig, namespace, startFunction } = options;
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  const redis = await connectRedis(server.url);
  started.add(async () => redis.disconnect());
  const setting = createSetting({ kubeconfig, redisUrl: server.url });
  const names = Array.from({ length: size.controllers }, (_, at) => `controller-${at}`);
  const of = { redis, keyPrefix: setting.keyPrefix, clusterId: CLUSTER };
  for (const [at, name] of names.entries()) await fillQueue(of, name, contentsOf(at, size));
  const observers = await startObservers(setting, [
    ...names.map((name) => ({ name, for: pods, onlyIn: 'none', timeoutSeconds: 5 })),
    { name: 'browsed', for: configMaps, onlyIn: namespace, timeoutSeconds: 5 },
  ]);
  for (const observer of observers.slice(0, 1)) started.keep(observer);
  const urls = observers.map(({ url }) => url);
  if (startFunction) urls.push(started.keep(await startFunction(setting)).url);
  const variables = { LEVELHOOK_CLUSTER_ID: CLUSTER, LEVELHOOK_LOG_TRIGGERS: 'false' };
  const gateway = started.keep(await startGateway(setting, urls, variables));
  await untilReady(gateway.url);
  return { gateway, redis, redisPid: server.pid ?? 0, setting };
}

function contentsOf(at: number, { controllers, waiting, dead, runs }: FullGatewaySize): QueueContents {
  const share = (of: number): number => Math.floor(at === 0 ? of / 2 : of / 2 / (controllers - 1));
  const half = Math.floor(share(waiting) / 2);
  return {
    runs: at < 4 ? runs : 0,
    failsEvery: [0, 10, 1][at] ?? 0,
    dead: share(dead),
    paused: share(waiting) - half,
    low: half,
  };
}

/**
 * Pages and answers of a gateway that `startFullGateway` has started, with paths by name.
 * @param at which key a page of one key shows. A gateway remembers the runs of a key that was shown. Default 0.
 */
export function fullGatewayPaths(namespace: string, at = 0): Readonly<Record<string, string>> {
  const [busy, failing, long] = [0, 1, 2].map((at) => `/dashboard/controllers/controller-${at}`);
  const browsed = '/dashboard/controllers/browsed';
  const objects = '/dashboard/views/objects?view=v1%2FConfigMap';
  const queue = '/queues/controller-0';
  return {
    overview: '/dashboard',
    'overview, filtered': '/dashboard?name=controller-1&show=problems',
    ...Object.fromEntries(KEY_LISTS.map((list) => [`controller, ${list}`, `${busy}?list=${list}`])),
    'controller, failing keys': `${long}?list=failing`,
    'controller, errors of 1 KiB': `${long}?list=timers`,
    'search, last keys': `${busy}?list=backlog&name=low-2499`,
    'search, no such name': `${busy}?list=backlog&name=nothing`,
    'search, no such namespace': `${busy}?list=waiting&namespace=nothing`,
    'search, dead letters': `${busy}?list=dead&name=dead-49`,
    'last keys of a list': `${busy}?list=backlog&from=24900`,
    'key, dead letter': `${busy}/keys/busy/dead-${at}`,
    'key, paused': `${busy}/keys/busy/paused-${at}`,
    'key, low priority': `${busy}/keys/busy/low-${at}`,
    'key, one of the oldest runs': `${busy}/keys/busy/run-${at}`,
    'key, failing': `${long}/keys/busy/run-${at}`,
    'key, nothing known': `${busy}/keys/busy/nothing-${at}`,
    runs: `${busy}/runs`,
    'runs with errors of 1 KiB': `${long}/runs`,
    ...Object.fromEntries(RUN_OUTCOMES.map((each) => [`runs, ${each}`, `${failing}/runs?outcome=${each}`])),
    'controller, all': `${browsed}?list=all`,
    'controller, all, no such name': `${browsed}?list=all&name=nothing`,
    'key, an object with an owner': `${browsed}/keys/${namespace}/object-${at + 1}`,
    'key, an object that owns all others': `${browsed}/keys/${namespace}/object-0`,
    'everything, a part of a name': '/dashboard/search?q=object-z',
    'everything, no such name': '/dashboard/search?q=nothing',
    'everything, a label': '/dashboard/search?q=half%3Dtrue',
    'everything, no such label': '/dashboard/search?q=none%3Dtrue',
    'everything, no such UID': '/dashboard/search?q=00000000-0000-4000-8000-000000000000',
    'errors of dead letters': '/dashboard/errors?list=dead',
    'errors of one controller': '/dashboard/errors?list=dead&controller=controller-0',
    'errors of failing keys': '/dashboard/errors?list=failing',
    'a run that is not on record': '/dashboard/controllers/controller-1/runs/1/busy/none',
    views: '/dashboard/views',
    objects,
    'objects of a namespace': `${objects}&namespace=${namespace}`,
    'objects with a label': `${objects}&labels=half%3Dtrue`,
    'objects, no such label': `${objects}&labels=none%3Dtrue`,
    'objects, large ones': `${objects}&namespace=${namespace}&after=${namespace}%2Fobject-y`,
    'objects, next page': `${objects}&namespace=${namespace}&after=${namespace}%2Fobject-5`,
    object: `/dashboard/views/object?view=v1%2FConfigMap&key=${namespace}%2Fobject-5`,
    'queue API, all': '/queues',
    'queue API, a list': `${queue}/keys?list=backlog&offset=20000&limit=1000`,
    'queue API, runs': `${queue}/runs?limit=1000`,
    'queue API, runs of a key': `${queue}/runs?key=busy%2Frun-0&limit=1000`,
    'queue API, runs of a key by outcome': `/queues/controller-1/runs?key=busy%2Frun-0&outcome=failed`,
    'queue API, samples': `${queue}/samples`,
    metrics: '/metrics',
  };
}
