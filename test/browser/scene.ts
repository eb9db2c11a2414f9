import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import {
  type Listening,
  type Setting,
  startFunction,
  startFunctionProcess,
  startGateway,
  untilReady,
} from '../harness/levelhook.ts';
import type { Started } from '../harness/started.ts';

/** What a text from outside may be. */
export const HOSTILE = `<script>document.title='taken over'</script><img src=x onerror="document.title='taken over'">`;

/** A gateway with two controllers, whose keys end in every way. */
export interface Scene {
  readonly gateway: Listening;
  readonly namespace: string;
}

/** The moody controller, of the objects that `createMoody` makes in this namespace: other tests have some in theirs. */
export function startMoody(setting: Setting, namespace: string): Promise<Listening> {
  return startFunctionProcess(setting, 'test/harness/moody-function.ts', { variables: { MOODY: namespace } });
}

/** @param setting with a key prefix of its own. @param namespace exists. */
export async function startScene(
  setting: Setting,
  { cluster, namespace, started }: { cluster: Cluster; namespace: string; started: Started },
): Promise<Scene> {
  const moody = started.keep(await startMoody(setting, namespace));
  const greeting = started.keep(await startFunction(setting, 'examples/01-minimal'));
  const gateway = started.keep(await startGateway(setting, [moody.url, greeting.url]));
  await untilReady(gateway.url);
  await cluster.create(configMaps, {
    metadata: { namespace, name: 'ann', labels: { greet: 'true' } },
    data: { name: 'Ann' },
  });
  for (const name of ['calm', 'even', 'mild']) await createMoody(cluster, { namespace, name }, {});
  for (const at of [1, 2, 3]) {
    await createMoody(cluster, { namespace, name: `broken-${at}` }, { fail: `the disk of broken-${at} is full` });
  }
  await createMoody(cluster, { namespace, name: 'refused' }, { terminal: 'spec.size must be positive' });
  await createMoody(cluster, { namespace, name: 'hostile' }, { terminal: HOSTILE }, { note: HOSTILE });
  await createMoody(cluster, { namespace, name: 'halted' }, {}, { 'levelhook.dev/paused': 'true' });
  await createMoody(cluster, { namespace, name: 'later' }, { again: '600' });
  return { gateway, namespace };
}

/** A ConfigMap of the moody controller. @param data how its runs end: see `moody-function.ts`. */
export async function createMoody(
  cluster: Cluster,
  key: { readonly namespace: string; readonly name: string },
  data: Readonly<Record<string, string>>,
  annotations: Readonly<Record<string, string>> = {},
): Promise<void> {
  await cluster.create(configMaps, { metadata: { ...key, labels: { moody: key.namespace }, annotations }, data });
}

/** Until the moody controller has so many dead letters. */
export async function untilDead(url: string, count: number): Promise<void> {
  await eventually(async () => {
    const answer = (await (await fetch(`${url}/queues/moody/keys?list=dead`)).json()) as { total: number };
    if (answer.total !== count) throw new Error(`${answer.total} dead letters instead of ${count}`);
  });
}
