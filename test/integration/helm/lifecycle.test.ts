import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { currentVersion } from '../../../infra/release/versions.ts';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { Started } from '../../harness/started.ts';
import { Pods } from './pods.ts';
import { Installation } from './installation.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const readme = readFileSync(join(ROOT, 'infra/helm/README.md'), 'utf8');
/** The README's commands, block by block. */
const [INSTALL = [], ADD_FUNCTION = [], DASHBOARD = [], UPGRADE = [], UNINSTALL = [], REMOVE_REST = [], ...others] = [
  ...readme.matchAll(/^```sh\n(.*?)^```/gms),
].map(([, text = '']) => text.trim().split('\n'));

const KEYS = 30;
const DEMAND = 'levelhook_queue_demand{name="shop.greeting"}';
const secrets = resource<KubernetesObject & { data: Record<string, string> }>('v1', 'Secret');
const started = new Started();
let installed: Installation;
let pods: Pods;
let before: string[];
let secretData: Record<string, string>;

// What runs in pods needs their user, mounts and addresses.
it('has root, which it needs to run what a kubelet would', () => expect(process.getuid?.()).toBe(0));

beforeAll(async () => {
  installed = await Installation.start(started);
  pods = new Pods(started, installed);
  // kube-controller-manager makes some objects of each namespace a moment later.
  await eventually(async () => expect(await installed.objects()).toContain('ServiceAccount kube-system/default'));
  before = await installed.objects();
}, 600_000);
afterAll(() => started.stop());

/** Runs commands of the README. In place of those that need a kubelet something else happens. */
async function follow(commands: readonly string[], kubelet: Readonly<Record<string, () => Promise<unknown>>> = {}) {
  const printed: string[] = [];
  for (const command of commands) {
    const needsKubelet = /rollout status|port-forward/.test(command);
    expect(Object.keys(kubelet).includes(command), command).toBe(needsKubelet);
    if (needsKubelet) await kubelet[command]?.();
    else printed.push(await installed.shell(command));
  }
  return printed;
}

const rolledOut = (namespace: string, name: string): string =>
  `kubectl -n ${namespace} rollout status deployment/${name}`;

async function greetingsOf(names: readonly string[]): Promise<(string | undefined)[]> {
  const { items } = await installed.cluster.list(configMaps, 'shop');
  const texts = new Map(items.map(({ metadata, data }) => [metadata.name, data?.['text']]));
  return names.map((name) => texts.get(`${name}-greeting`));
}

it('the README has the blocks that are tested here', () => expect(others).toEqual([]));

it('an installation from nothing warns of the Redis, makes secrets, and runs two gateways', async () => {
  const folder = await started.directory();
  // There is no earlier release yet: it is this chart under an older version.
  const version = ['--version', '0.0.1', '--app-version', '0.0.1'];
  await installed.helm(['package', 'infra/helm/levelhook', '--destination', folder, ...version]);
  const previous = INSTALL.map((line) => line.replace(' infra/helm/levelhook ', ` ${folder}/levelhook-0.0.1.tgz `));
  expect(previous).not.toEqual(INSTALL);
  const [printed] = await follow(previous, {
    [rolledOut('levelhook', 'levelhook')]: async () => {
      await pods.startRedis();
      await pods.startGateway();
      await pods.startGateway();
      await pods.untilReady();
    },
  });
  expect(printed).toContain('WARNING: The bundled Redis is one process');
  const key = { namespace: 'levelhook', name: 'levelhook-secrets' };
  secretData = (await installed.cluster.get(secrets, key))?.data ?? {};
  const names = ['admin-tokens', 'api-tokens', 'cache-keys', 'redis-password', 'signing-secrets'];
  expect(Object.keys(secretData).toSorted()).toEqual(names);
  expect(new Set(Object.values(secretData)).size).toBe(names.length);
});

it('alerts and dashboard name metrics that the gateway serves', async () => {
  const text = await pods.metrics();
  const served = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  const files = ['rules.yaml', 'grafana.json'].map((name) =>
    readFileSync(join(ROOT, 'infra/helm/levelhook/files', name), 'utf8'),
  );
  const named = [...files.join('\n').matchAll(/\b([a-z]+(?:_[a-z]+)+)(?=\{)/g)].map(([, name = '']) => name);
  expect(new Set(named).size).toBeGreaterThan(20);
  expect(named.filter((name) => !served.has(name.replace(/_(bucket|sum|count)$/, '')))).toEqual([]);
});

it('a function of the other chart runs with the rights that its values name', async () => {
  const printed = await follow(ADD_FUNCTION, {
    [rolledOut('shop', 'greeting')]: () => pods.startFunction(),
  });
  expect(printed.at(-1)).toBe('Hello, Ann!');
  const can = (verb: string, what: string) =>
    installed.shell(`kubectl auth can-i ${verb} ${what} --as system:serviceaccount:shop:greeting || true`);
  expect(await can('create', 'configmaps')).toBe('yes\n');
  expect(await can('delete', 'configmaps')).toBe('no\n');
  expect(await can('list', 'secrets')).toBe('no\n');
});

it('the token of the Secret opens the dashboard', async () => {
  let status: number | undefined;
  const printed = await follow(DASHBOARD, {
    'kubectl -n levelhook port-forward service/levelhook 8787': async () => {
      const token = Buffer.from(secretData['admin-tokens'] ?? '', 'base64')
        .toString()
        .split(':')[2];
      const ask = async (headers: Record<string, string>) =>
        (await fetch(`${pods.gatewayUrl()}/dashboard`, { headers, redirect: 'manual' })).status;
      expect(await ask({ authorization: 'Bearer wrong-token-of-some-length' })).toBe(401);
      status = await ask({ authorization: `Bearer ${token}` });
    },
  });
  expect(printed).toEqual([Buffer.from(secretData['admin-tokens'] ?? '', 'base64').toString()]);
  expect(status).toBe(200);
});

it('an upgrade keeps the secrets, and loses none of the keys that wait', async () => {
  const demand = async (): Promise<number> => {
    const line = (await pods.metrics()).split('\n').find((each) => each.startsWith(DEMAND));
    return Number(line?.slice(DEMAND.length));
  };
  await eventually(async () => expect(await demand()).toBe(0));
  expect(await pods.stopFunction()).toBe(0);
  const names = Array.from({ length: KEYS }, (_, at) => `key-${at}`);
  const labels = { greet: 'true' };
  await installed.cluster.create(configMaps, { metadata: { namespace: 'shop', name: 'key-0', labels }, data: {} });
  // However long the backoff of the one key is: a scaler that looks at any time sees it.
  await eventually(async () => expect(await demand()).toBe(1));
  for (let look = 0; look < 40; look += 1) {
    expect(await demand()).toBeGreaterThan(0);
    await new Promise((wake) => setTimeout(wake, 50));
  }
  for (const name of names.slice(1)) {
    await installed.cluster.create(configMaps, { metadata: { namespace: 'shop', name, labels }, data: { name } });
  }
  // What `QueueLevels.demand` promises.
  await eventually(async () => expect(await demand()).toBeGreaterThanOrEqual(KEYS / 2));

  // As the Deployment's strategy says: a new one is ready before an old one stops.
  const roll = async (): Promise<void> => {
    for (const old of pods.gateways()) {
      await pods.startGateway();
      await pods.untilReady();
      expect(await pods.stopGateway(old)).toBe(0);
    }
  };
  await follow(UPGRADE, { [rolledOut('levelhook', 'levelhook')]: roll });
  const list = JSON.parse(await installed.helm(['list', '--all-namespaces', '--output', 'json'])) as {
    chart: string;
  }[];
  const version = currentVersion(ROOT);
  expect(list.map(({ chart }) => chart).toSorted()).toEqual([`levelhook-${version}`, `levelhook-functions-${version}`]);
  const key = { namespace: 'levelhook', name: 'levelhook-secrets' };
  expect((await installed.cluster.get(secrets, key))?.data).toEqual(secretData);
  expect(await demand()).toBeGreaterThan(0);
  expect((await greetingsOf(names)).every((text) => text === undefined)).toBe(true);

  await pods.startFunction();
  const expected = names.map((name, at) => `Hello, ${at === 0 ? 'world' : name}!`);
  await eventually(async () => expect(await greetingsOf(names)).toEqual(expected));
  await eventually(async () => expect(await demand()).toBe(0));
});

it('what was removed leaves nothing but what the README names, and its commands remove that', async () => {
  /** With its namespaces Kubernetes has made some objects. */
  const isOfNamespace = /^Namespace |^ServiceAccount \w+\/default$|^ConfigMap \w+\/kube-root-ca.crt$/;
  // What the reader has made in following the README, and what came of it.
  const isSample = /^ConfigMap shop\/(ann|key-\d+)(-greeting)?$/;
  const [ofFunctions = '', ofGateway = ''] = UNINSTALL;
  await follow([ofFunctions]);
  await eventually(async () =>
    expect((await pods.redisKeys()).filter((key) => key.includes('shop.greeting'))).toEqual([]),
  );
  await follow([ofGateway]);
  expect(UNINSTALL).toHaveLength(2);
  await pods.stopAll();
  // The garbage collector removes pods and volumes.
  const left = await eventually(async () => {
    const all = (await installed.objects()).filter((text) => !before.includes(text));
    const found = all.filter((text) => !isOfNamespace.test(text) && !isSample.test(text));
    expect(found.filter((text) => /^(Pod|PersistentVolumeClaim|ReplicaSet|Endpoint)/.test(text))).toEqual([]);
    return found;
  });
  expect(left).toEqual([
    'CustomResourceDefinition /reconcilefunctions.levelhook.dev',
    'Lease kube-system/levelhook-dispatch',
    'Lease levelhook/levelhook',
    'Secret levelhook/levelhook-secrets',
  ]);
  await follow(REMOVE_REST);
  await eventually(async () => expect(await installed.objects()).toEqual(before));
});

it('after that it can be installed again', async () => {
  const isHelm = (line: string): boolean => line.startsWith('helm ');
  await follow([...INSTALL, ...ADD_FUNCTION].filter(isHelm));
  await follow([...UNINSTALL, ...REMOVE_REST]);
});
