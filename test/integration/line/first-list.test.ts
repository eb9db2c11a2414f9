import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import type { Reason, Trigger } from '../../../src/contract/index.ts';
import { resource } from '../../../src/core/index.ts';
import { startControlPlane } from '../../../src/testing/index.ts';
import { Cluster } from '../../harness/cluster.ts';
import { storeInEtcd } from '../../harness/etcd-objects.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { createSetting, startGateway } from '../../harness/levelhook.ts';
import { done, RawFunction } from '../../harness/raw-function.ts';
import { Started } from '../../harness/started.ts';

/** Objects of the watched kind. */
const OBJECTS = Number(process.env['FIRST_LIST_OBJECTS'] ?? 5000);
/** Objects that lead to the same key, which has no object of its own. */
const OF_A_KEY = 5;
const KEYS = OBJECTS / OF_A_KEY;
const LIVE = Array.from({ length: 20 }, (_, at) => `live-${at}`);
const CONCURRENCY = 4;
const LABEL = 'levelhook.test/to';
const NAME = 'heir';
/** For each wait until all keys of the list are queued, or have run. */
const LONG_MS = 170_000;
const namespace = 'many';
const accounts = resource('v1', 'ServiceAccount');

const started = new Started();
/** The names of the keys whose runs have begun, in order, and why. */
const begun: { readonly name: string; readonly reasons: readonly Reason[] }[] = [];
/** Ends each run that is held; undefined: all runs end at once. */
let held: (() => void)[] | undefined = [];
let cluster: Cluster;
let gatewayUrl: string;

beforeAll(async () => {
  // A plane of its own, so that the gateways of other tests do not list these objects.
  const plane = await startControlPlane();
  started.add(() => plane.stop());
  cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  await cluster.createNamespace(namespace);
  const objects = Array.from({ length: OBJECTS }, (_, at) => {
    const metadata = { namespace, name: `object-${at}`, labels: { [LABEL]: `listed-${at % KEYS}` } };
    return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: {} };
  });
  await storeInEtcd(plane, 'configmaps', objects);
  const fn = new RawFunction({
    name: NAME,
    for: { apiVersion: 'v1', kind: 'ServiceAccount', namespaces: [namespace] },
    watches: [{ apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace], map: { by: 'label', label: LABEL } }],
    concurrency: CONCURRENCY,
    timeoutSeconds: 900,
  });
  fn.onTrigger = run;
  await started.open(fn);
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
  ({ url: gatewayUrl } = started.keep(await startGateway(setting, [fn.url])));
  started.add(async () => endAll());
});

afterAll(() => started.stop());

function run({ requests }: Trigger, response: ServerResponse): void {
  begun.push(...requests);
  const end = (): void => done(response, response.req);
  if (held) held.push(end);
  else end();
}

function endAll(): void {
  const runs = held ?? [];
  held = undefined;
  for (const end of runs) end();
}

const isListed = ({ name }: { name: string }): boolean => name.startsWith('listed-');
/** The names of the runs so far that are of the list, or of live changes. */
const begunNames = (listed: boolean): string[] =>
  begun.filter((each) => isListed(each) === listed).map(({ name }) => name);
/** How many keys wait, by priority. */
const depth = (priority: 0 | -100): Promise<number> =>
  metric(gatewayUrl, 'workqueue_depth', { name: NAME, priority: String(priority) });

it(
  `keys of a first list of ${OBJECTS} watched objects run after live changes of other keys`,
  { timeout: 3 * LONG_MS },
  async () => {
    // Each slot has a run, and all further keys of the list wait at low priority.
    await eventually(async () => expect(await depth(-100)).toBeGreaterThanOrEqual(KEYS - CONCURRENCY), LONG_MS);
    await eventually(async () => expect(held).toHaveLength(CONCURRENCY));
    await eventually(async () => expect([await depth(-100), await depth(0)]).toEqual([KEYS - CONCURRENCY, 0]));
    await Promise.all(LIVE.map((name) => cluster.create(accounts, { metadata: { namespace, name } })));
    await eventually(async () => expect(await depth(0)).toBe(LIVE.length));

    const before = begun.length;
    endAll();
    await eventually(async () => expect(new Set(begunNames(true)).size).toBe(KEYS), LONG_MS);
    expect(begunNames(false).toSorted()).toEqual(LIVE.toSorted());
    // A key at low priority goes first once it has waited for 20 ms, so that live changes do not starve it.
    const last = begun.findLastIndex((each) => !isListed(each));
    expect(begun.slice(before, last).filter(isListed).length).toBeLessThan(KEYS / 4);
    const reasons = begun.filter(isListed).map((each) => JSON.stringify(each.reasons));
    expect(new Set(reasons)).toEqual(new Set(['[{"type":"initial"}]']));
  },
);
