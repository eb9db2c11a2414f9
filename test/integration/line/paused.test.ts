import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { RECORDER, recordsOf, startRecorder } from '../../harness/recorder.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
const namespace = uniqueName('paused');
let cluster: Cluster;
let recorder: TestProcess;
let gatewayUrl: string;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  await create('before', { 'levelhook.dev/paused': 'true' });
  const fn = started.keep(await startRecorder(setting, { namespace }));
  const gateway = started.keep(await startGateway(setting, [fn.url]));
  [recorder, gatewayUrl] = [fn.process, gateway.url];
  await untilReady(gatewayUrl);
});

afterAll(() => started.stop());

const create = (name: string, annotations: Record<string, string> = {}): Promise<unknown> =>
  cluster.create(configMaps, { metadata: { namespace, name, annotations }, data: {} });
const reconciled = (name: string): number => recordsOf(recorder).filter(({ key }) => key === name).length;
const waitsOf = async (name: string): Promise<unknown> => {
  const answer = await fetch(`${gatewayUrl}/queues/${RECORDER}/keys/${namespace}/${name}`);
  return ((await answer.json()) as { waits: unknown }).waits;
};
const annotate = (name: string, value: string | null): Promise<unknown> =>
  cluster.patch(configMaps, { namespace, name }, { metadata: { annotations: { 'levelhook.dev/paused': value } } });

it('an object that says it is paused is not reconciled, and says why, until it says so no longer', async () => {
  await create('during', { 'levelhook.dev/paused': 'until monday' });
  await create('free');
  await create('later');
  await eventually(async () => expect(reconciled('later')).toBeGreaterThan(0));
  for (const name of ['before', 'during']) {
    const waits = [{ reason: 'paused', by: `object/${namespace}/${name}` }];
    await eventually(async () => expect(await waitsOf(name), name).toEqual(waits));
  }
  await annotate('later', 'true');
  await eventually(async () => expect(await waitsOf('later')).toHaveLength(1));
  expect(reconciled('before') + reconciled('during')).toBe(0);

  await annotate('before', 'false');
  await annotate('during', null);
  await eventually(async () => {
    expect(reconciled('before')).toBeGreaterThan(0);
    expect(reconciled('during')).toBeGreaterThan(0);
  });
  // Deleted while it was paused: that is news, and nothing holds a key whose object is gone.
  const runs = reconciled('later');
  await cluster.delete(configMaps, { namespace, name: 'later' });
  await eventually(async () => expect(reconciled('later')).toBeGreaterThan(runs));
  await eventually(async () => expect(await waitsOf('later')).toEqual([]));
});
