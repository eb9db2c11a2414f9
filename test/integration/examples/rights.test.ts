import { once } from 'node:events';
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, resolve } from 'node:path';
import type { Controller } from 'levelhook/function';
import { ClusterRole, ClusterRoleBinding, ConfigMap, Deployment, Namespace } from 'levelhook/function/kinds';
import {
  type ControlPlane,
  RealApiserver,
  runReconciler,
  runReview,
  startControlPlane,
  testContext,
} from 'levelhook/testing';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { greeting } from '../../../functions/examples/01-minimal/greeting.ts';
import { site } from '../../../functions/examples/02-custom-resource/site.ts';
import { Site } from '../../../functions/examples/02-custom-resource/sites.example.com-v1.ts';
import { Route } from '../../../functions/examples/03-webhooks/kinds.ts';
import { route } from '../../../functions/examples/03-webhooks/route.ts';
import { records } from '../../../functions/examples/04-finalizer/record.ts';
import { expiry } from '../../../functions/examples/05-requeue/expiry.ts';
import { configHash } from '../../../functions/examples/06-maps/config-hash.ts';
import { webCheck } from '../../../functions/examples/07-errors/web-check.ts';
import { team } from '../../../functions/examples/09-related/team.ts';
import { copies } from '../../../functions/examples/20-platforms/copies.ts';
import { type Resource, resource } from '../../../src/core/index.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { applyManifests, serviceAccountKubeconfig } from '../../harness/identity.ts';
import { createSetting, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { buildGoExample, startGoExample, startPythonExample } from '../../harness/plain-examples.ts';
import { printedRules, type Rule } from '../../harness/printed-rules.ts';
import { Started } from '../../harness/started.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const NAMESPACE = 'rights';
const accounts = resource('v1', 'ServiceAccount');
const CRD = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
/** Reading is the gateway's affair. */
const READS = [
  {
    apiGroups: ['', 'apps', 'example.com'],
    resources: ['configmaps', 'deployments', 'routes', 'sites'],
    verbs: ['get', 'list', 'watch'],
  },
];

interface Values {
  readonly functions: { readonly greeting: { readonly rules: readonly Rule[] } };
}

const read = (path: string): Promise<string> => readFile(resolve(ROOT, path), 'utf8');
const yamlIn = (markdown: string): string[] =>
  [...markdown.matchAll(/```yaml\n([^`]*)```/g)].map(([, text]) => text ?? '');

/** The examples whose rights stand in a file. */
const SHIPPED = ['chart-example', 'chart-readme', 'platforms'];

/** The rules for a user of each example: those in the repository's files, else those that are printed. */
async function shippedRules(): Promise<Record<string, readonly Rule[]>> {
  const values = parse(await read('infra/helm/examples/greeting.yaml')) as Values;
  const block = yamlIn(await read('infra/helm/README.md')).find((each) => each.startsWith('functions:')) ?? '';
  const printed = EXAMPLES.filter(([user]) => !SHIPPED.includes(user));
  return {
    'chart-example': values.functions.greeting.rules,
    'chart-readme': (parse(block) as Values).functions.greeting.rules,
    platforms: await rulesIn('functions/examples/20-platforms/rbac.yaml'),
    ...Object.fromEntries(printed.map(([user, controller]) => [user, printedRules(controller)])),
  };
}

async function rulesIn(path: string): Promise<readonly Rule[]> {
  const roles = parseAllDocuments(await read(path)).map(
    (each) => (each as { toJS(): unknown }).toJS() as { kind: string; rules: readonly Rule[] },
  );
  return roles.find(({ kind }) => kind === 'ClusterRole')?.rules ?? [];
}

const mutable = ({ apiGroups, resources, verbs }: Rule) => ({
  apiGroups: [...apiGroups],
  resources: [...resources],
  verbs: [...verbs],
});

/** A service outside of the cluster, which takes everything. */
const service = createServer((_, response) => response.writeHead(204).end());
await once(service.listen(0, '127.0.0.1'), 'listening');
const SERVICE = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;

/** A merge patch of an object, before another run. */
type Change = readonly [resource: Resource, name: string, body: object];

const EXAMPLES: readonly (readonly [
  user: string,
  controller: Controller,
  name: string,
  folder: string,
  changes: readonly Change[],
])[] = [
  ['chart-example', greeting, 'ann', '01-minimal', [[ConfigMap, 'ann', { data: { name: 'Anna' } }]]],
  ['chart-readme', greeting, 'bob', '01-minimal', [[ConfigMap, 'bob', { data: { name: 'Rob' } }]]],
  ['site', site, 'home', '02-custom-resource', [[Site, 'home', { spec: { pages: { a: 'B' } } }]]],
  ['webhooks', route, 'shop', '03-webhooks', []],
  ['record', records(SERVICE), 'record', '04-finalizer', []],
  ['expiry', expiry(() => Date.now() + 60_000), 'expiry', '05-requeue', []],
  ['config-hash', configHash, 'rolled', '06-maps', []],
  ['web-check', webCheck, 'check', '07-errors', []],
  ['team', team, 'red', '09-related', [[ConfigMap, 'member', { data: { mail: 'member@example.com' } }]]],
  [
    'platforms',
    copies,
    'copied',
    '20-platforms',
    [
      [ConfigMap, 'copied', { data: { text: 'other' } }],
      [ConfigMap, 'copied', { metadata: { labels: { 'example.com/copies': '1' } } }],
    ],
  ],
];
/** Programs in other languages, which nothing can call but a gateway. */
const WITHOUT_SDK = ['10-python', '11-go'];
/** Its run writes nothing, its worker does: see learning.test.ts. */
const WRITES_LATER = ['08-long-runs'];

const started = new Started();
let plane: ControlPlane;
let rules: Record<string, readonly Rule[]>;

beforeAll(async () => {
  started.add(async () => service.close().closeAllConnections());
  rules = await shippedRules();
  const users = [...Object.keys(rules), 'without'].map((name) => ({ name }));
  plane = await startControlPlane({
    users,
    apiserverArguments: ['--enable-admission-plugins=OwnerReferencesPermissionEnforcement'],
  });
  started.add(() => plane.stop());
  const { api } = testContext({ apiserver: new RealApiserver(plane.kubeconfig) });
  await api.create(Namespace, { metadata: { name: NAMESPACE } });
  for (const definition of ['02-custom-resource/site', '03-webhooks/route']) {
    await api.create(CRD, parse(await read(`functions/examples/${definition}.crd.yaml`)) as never);
  }
  const without = (rules['chart-example'] ?? []).filter(
    ({ resources }) => !resources.includes('configmaps/finalizers'),
  );
  for (const [name, own] of Object.entries({ ...rules, without })) {
    await api.create(ClusterRole, { metadata: { name }, rules: [...READS, ...own].map(mutable) });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name };
    await api.create(ClusterRoleBinding, { metadata: { name }, roleRef, subjects: [{ kind: 'User', name }] });
  }
  const labels = { greet: 'true', 'example.com/copies': '2' };
  for (const name of ['ann', 'bob', 'copied', 'member', 'refused']) {
    await api.create(ConfigMap, { metadata: { namespace: NAMESPACE, name, labels }, data: { name, text: name } });
  }
  const own = {
    record: { record: 'true' },
    expiry: { expires: 'true' },
    check: { check: 'true' },
    red: { team: 'true' },
  };
  for (const [name, ownLabels] of Object.entries(own)) {
    const annotations = { 'example.com/ttl-seconds': '1' };
    const metadata = { namespace: NAMESPACE, name, labels: ownLabels, annotations };
    await api.create(ConfigMap, { metadata, data: { url: SERVICE, members: 'member' } });
  }
  const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'web', image: 'web' }] } };
  await api.create(Deployment, {
    metadata: { namespace: NAMESPACE, name: 'rolled', annotations: { 'example.com/config': 'ann' } },
    spec: { selector: { matchLabels: { app: 'web' } }, template },
  });
  await eventually(() =>
    api.create(Site, { metadata: { namespace: NAMESPACE, name: 'home' }, spec: { pages: { a: 'A' } } }),
  );
  await eventually(() =>
    api.create(Route, { metadata: { namespace: NAMESPACE, name: 'shop' }, spec: { host: 'shop.example.com' } }),
  );
});

afterAll(() => started.stop());

const run = (user: string, controller: Controller, name: string) =>
  runReconciler(
    controller,
    { namespace: NAMESPACE, name },
    { apiserver: new RealApiserver(plane.kubeconfigFor(user)) },
  );

it('are tested for every example', () => {
  const examples = globSync('functions/examples/*/', { cwd: ROOT }).map((folder) => basename(folder));
  const tested = EXAMPLES.map(([, , , folder]) => folder);
  expect([...new Set([...tested, ...WITHOUT_SDK, ...WRITES_LATER])].toSorted()).toEqual(examples.toSorted());
});

it.each(EXAMPLES)(
  '%s: the rights suffice where the owner has to be one that the user may change, and each is used',
  async (user, controller, name, _, changes) => {
    const used = new Set<string>();
    const runs = async (): Promise<void> => {
      const { outcome, writes } = await run(user, controller, name);
      expect(outcome).toMatchObject({ status: 'done' });
      expect(writes).not.toEqual([]);
      expect(writes.filter(({ status = 0 }) => status >= 300)).toEqual([]);
      for (const { verb, resource: plural, subresource } of writes) used.add(nameOf(verb, plural, subresource));
    };
    await runs();
    const { api } = testContext({ apiserver: new RealApiserver(plane.kubeconfig) });
    for (const [of, changed, body] of changes) {
      await api.patch(of, { namespace: NAMESPACE, name: changed }, { type: 'merge', body });
      await runs();
    }
    const declared = (controller.writes ?? []).flatMap(({ resource: { plural }, subresource, verbs }) =>
      verbs.map((verb) => nameOf(verb, plural, subresource)),
    );
    expect([...used].toSorted()).toEqual(declared.toSorted());
    const granted = (rules[user] ?? []).flatMap(({ resources, verbs }) =>
      resources.flatMap((each) => (each.endsWith('/finalizers') ? [] : verbs.map((verb) => `${verb} ${each}`))),
    );
    expect(granted.toSorted()).toEqual(declared.toSorted());
  },
);

function nameOf(verb: string, plural: string, subresource: string | undefined): string {
  return `${verb} ${plural}${subresource === undefined ? '' : `/${subresource}`}`;
}

it('webhooks: the validating one needs no right but to read what it compares with', async () => {
  const metadata = { namespace: NAMESPACE, name: 'second' };
  const second = { apiVersion: Route.apiVersion, kind: Route.kind, metadata, spec: { host: 'shop.example.com' } };
  const apiserver = new RealApiserver(plane.kubeconfigFor('webhooks'));
  const { denial } = await runReview(route, 'hosts', { create: second }, { apiserver });
  expect(denial?.message).toBe(`the host shop.example.com belongs to ${NAMESPACE}/shop`);
});

describe('the examples without the SDK, behind a gateway and with their shipped rights', () => {
  let cluster: Cluster;
  let gatewayUrl: string;

  beforeAll(async () => {
    cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    const examples = WITHOUT_SDK.map((folder) => `functions/examples/${folder}/rbac.yaml`);
    await applyManifests(plane, ['infra/rbac/gateway.yaml', ...examples]);
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    const as = async (name: string) => ({ ...setting, kubeconfig: await serviceAccountKubeconfig(plane, name) });
    const urls = [
      await startPythonExample(started, await as('word-count')),
      await startGoExample(started, await as('pod-count'), await buildGoExample(started)),
    ];
    const { url } = started.keep(await openGateway(setting, urls));
    gatewayUrl = url;
    await untilReady(url);
  });

  it('the one in Python creates and changes its ConfigMap', async () => {
    const source = { namespace: NAMESPACE, name: 'text' };
    const counted = { namespace: NAMESPACE, name: 'text-words' };
    const says = (words: string) =>
      eventually(async () => expect((await cluster.get(configMaps, counted))?.data).toEqual({ words }));
    await cluster.create(configMaps, { metadata: { ...source, labels: { count: 'words' } }, data: { a: 'to be' } });
    await says('2');
    const [owner] = (await cluster.get(configMaps, counted))?.metadata.ownerReferences ?? [];
    expect(owner).toMatchObject({ name: 'text', blockOwnerDeletion: true });
    await cluster.patch(configMaps, source, { data: { a: 'to be or not' } });
    await says('4');
  });

  it('the one in Python leaves alone a ConfigMap that it does not own', async () => {
    const foreign = { namespace: NAMESPACE, name: 'foreign-words' };
    await cluster.create(configMaps, { metadata: foreign, data: { words: 'mine' } });
    const source = { namespace: NAMESPACE, name: 'foreign', labels: { count: 'words' } };
    await cluster.create(configMaps, { metadata: source, data: { a: 'to be' } });
    await eventually(async () => {
      const metrics = await (await fetch(`${gatewayUrl}/metrics`)).text();
      expect(metrics).toMatch(/controller_runtime_reconcile_errors_total\{controller="word-count"\} [1-9]/);
    });
    expect((await cluster.get(configMaps, foreign))?.data).toEqual({ words: 'mine' });
  });

  it('the one in Go changes its ServiceAccount', async () => {
    const account = { namespace: NAMESPACE, name: 'web' };
    await cluster.create(accounts, { metadata: { ...account, labels: { count: 'pods' } } });
    await eventually(async () => {
      const { annotations } = (await cluster.get(accounts, account))?.metadata ?? {};
      expect(annotations).toEqual({ 'example.levelhook.dev/pods': '0' });
    });
  });
});

it('the apiserver refuses an owner reference without the right on finalizers', async () => {
  const { outcome } = await run('without', greeting, 'refused');
  expect(JSON.stringify(outcome)).toContain('cannot set blockOwnerDeletion');
});
