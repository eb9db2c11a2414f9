import { existsSync, globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { METRICS } from '../../../src/core/index.ts';
import { leaseName } from '../../../src/gateway/recovery/dispatch-lease.ts';
import { eventually } from '../../harness/eventually.ts';
import { foreignDefinitions } from '../../harness/helm.ts';
import { Installation } from './installation.ts';
import { Started } from '../../harness/started.ts';
import { nameFor, ODD_NAMES, ODD_TEXTS, PLAIN, withName } from './odd-names.ts';
import { REFUSALS } from './refusals.ts';

const HELM = resolve(import.meta.dirname, '../../../infra/helm');
const CHARTS = ['levelhook', 'levelhook-functions'] as const;

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly { readonly resourceNames?: readonly string[]; readonly resources?: readonly string[] }[];
}

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly lifecycle?: object;
          readonly env: readonly { readonly name: string; readonly value?: string }[];
        }[];
        readonly terminationGracePeriodSeconds: number;
      };
    };
  };
}

interface Peer {
  readonly podSelector?: object;
  readonly namespaceSelector?: object;
}

interface NetworkPolicy {
  readonly spec: Readonly<
    Record<
      'ingress' | 'egress',
      readonly {
        readonly ports?: readonly { readonly port: number | string }[];
        readonly from?: readonly Peer[];
        readonly to?: readonly Peer[];
      }[]
    >
  >;
}

/** Values to render each chart with: its defaults, its example, and those of `ci/`. */
const RENDERINGS = CHARTS.flatMap((chart) => [
  { chart, values: undefined },
  ...globSync(`${chart}/ci/*.yaml`, { cwd: HELM }).map((values) => ({ chart, values })),
  ...(chart === 'levelhook-functions' ? [{ chart, values: 'examples/greeting.yaml' }] : []),
]).map((each) => ({ ...each, name: `${each.chart} with ${each.values ? basename(each.values) : 'its defaults'}` }));

const started = new Started();
let installed: Installation;

beforeAll(async () => {
  // The name of a Service begins with a letter, as it has to before Kubernetes 1.36.
  installed = await Installation.start(started, ['--feature-gates=RelaxedServiceNameValidation=false']);
}, 600_000);
afterAll(() => started.stop());

async function render(
  chart: string,
  valuesFile?: string,
  { release, namespace } = { release: 'test', namespace: 'render' },
  set: readonly string[] = [],
): Promise<{ text: string; objects: Manifest[] }> {
  const values = valuesFile === undefined ? [] : ['--values', valuesFile];
  const args = [
    'template',
    release,
    chart,
    '--namespace',
    namespace,
    ...values,
    ...set.flatMap((each) => ['--set', each]),
  ];
  const text = await installed.helm(args, HELM);
  const objects = parseAllDocuments(text).map((each) => (each as { toJS(): Manifest | null }).toJS());
  return { text, objects: objects.filter((each) => each !== null) };
}

it.each(CHARTS)('helm lint finds nothing wrong in %s', async (chart) => {
  for (const values of [undefined, ...globSync(`${chart}/ci/*.yaml`, { cwd: HELM })]) {
    await installed.helm(['lint', '--strict', chart, ...(values ? ['--values', values] : [])], HELM);
  }
});

it.each(REFUSALS)('%s refuses %s', async (chart, values, message) => {
  const file = join(await started.directory(), 'values.yaml');
  await writeFile(file, values);
  await expect(render(chart, file)).rejects.toThrow(message);
});

describe('the apiserver', () => {
  beforeAll(async () => {
    const definitions = [...(await foreignDefinitions()), join(HELM, '../crds/levelhook.dev_reconcilefunctions.yaml')];
    for (const file of definitions) {
      expect(existsSync(file), file).toBe(true);
      await installed.kubectl(['apply', '--server-side', '--filename', file]);
    }
    for (const name of ['render', 'web', 'shop', PLAIN, ...ODD_NAMES])
      await installed.kubectl(['create', 'namespace', name]);
    await installed.kubectl(['wait', 'crd', '--all', '--for=condition=Established', '--timeout=60s']);
  });

  it.each(RENDERINGS)('takes every object of $name, and knows every field', async ({ chart, values }) => {
    const { text, objects } = await render(chart, values);
    if (chart === 'levelhook-functions' && values === undefined) return expect(objects).toEqual([]);
    const file = join(await started.directory(), 'objects.yaml');
    await writeFile(file, text);
    const args = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '--force-conflicts'];
    const answer = await installed.kubectl([...args, '--filename', file]);
    expect(answer.trim().split('\n')).toHaveLength(objects.length);
    expect(answer).not.toMatch(/warning/i);
  });

  const RELEASES = [...ODD_NAMES, ...ODD_TEXTS].map((name) => [nameFor('release', name), name] as const);

  it.each([...RELEASES, ['shop.v1', 'render'] as const])(
    'takes every object of the release %s, with the namespace and all values named %s where they may be',
    async (release, name) => {
      const [file, own] = [
        join(await started.directory(), 'objects.yaml'),
        join(await started.directory(), 'values.json'),
      ];
      const rendered: { text: string; objects: Manifest[] }[] = [];
      for (const { chart, values } of RENDERINGS) {
        const named = withName(chart, values ? (parse(readFileSync(join(HELM, values), 'utf8')) as object) : {}, name);
        await writeFile(own, JSON.stringify(named));
        rendered.push(await render(chart, own, { release, namespace: nameFor('namespace', name) }));
      }
      await writeFile(file, rendered.map(({ text }) => text).join('\n---\n'));
      const args = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '--force-conflicts'];
      const answer = await installed.kubectl([...args, '--filename', file]);
      expect(answer.trim().split('\n')).toHaveLength(rendered.flatMap(({ objects }) => objects).length);
    },
  );
});

it('a gateway that takes reviews goes on for a moment after its pod has left the Service', async () => {
  const file = join(await started.directory(), 'values.yaml');
  const stops = async (values: string): Promise<[object | undefined, number]> => {
    await writeFile(file, values);
    const { objects } = await render('levelhook', file);
    const deployment = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'test');
    const { containers, terminationGracePeriodSeconds } = (deployment as unknown as Deployment).spec.template.spec;
    return [containers[0]?.lifecycle, terminationGracePeriodSeconds];
  };
  const [lifecycle, seconds] = await stops('webhooks: { generate: true }');
  expect(lifecycle).toEqual({ preStop: { sleep: { seconds: 5 } } });
  expect(await stops('')).toEqual([undefined, seconds - 5]);
});

it('the bundled Redis is reached from its own namespace, and from others that are named', async () => {
  const file = join(await started.directory(), 'values.yaml');
  const reachedFrom = async (values: string): Promise<readonly [object | undefined, string | undefined]> => {
    await writeFile(file, values);
    const { objects } = await render('levelhook', file);
    const deployment = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'test');
    const { env } = (deployment as unknown as Deployment).spec.template.spec.containers[0] ?? { env: [] };
    const users = env.find(({ name }) => name === 'LEVELHOOK_REDIS_USERS')?.value;
    const policy = objects.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'test-redis');
    const [rule] = (policy as unknown as NetworkPolicy).spec.ingress;
    const [gateway, functions, ...others] = rule?.from ?? [];
    expect([Object.keys(gateway ?? {}), others]).toEqual([['podSelector'], []]);
    expect(functions?.podSelector).toEqual({ matchLabels: { 'levelhook.dev/reads-redis': 'true' } });
    return [functions?.namespaceSelector, users];
  };
  const named = (...values: string[]): object => ({
    matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values }],
  });
  // Functions there, and no others, have Redis users.
  expect(await reachedFrom('')).toEqual([named('render'), 'render']);
  expect(await reachedFrom('networkPolicy: { redisNamespaces: [web, shop] }')).toEqual([
    named('render', 'web', 'shop'),
    'render,web,shop',
  ]);
  expect(await reachedFrom('networkPolicy: { redisNamespaces: ["*"] }')).toEqual([{ matchLabels: {} }, 'render,*']);
});

it('a new gateway is ready before an old one stops', async () => {
  const { objects } = await render('levelhook');
  const deployment = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'test');
  const { strategy } = (deployment as unknown as { spec: { strategy: object } }).spec;
  expect(strategy).toEqual({ rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } });
});

it('the gateway is reached from, and reaches, the peers that values name', async () => {
  const file = join(await started.directory(), 'values.yaml');
  /** The peers of each rule, by its ports. */
  const peersOf = async (values: object): Promise<Record<string, unknown>> => {
    await writeFile(file, JSON.stringify(values));
    const { objects } = await render('levelhook', file);
    const policy = objects.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'test');
    const { ingress, egress } = (policy as unknown as NetworkPolicy).spec;
    const all = [...ingress, ...egress].map(({ ports = [], from, to }) => [
      ports.map(({ port }) => port).join(),
      from ?? to,
    ]);
    return Object.fromEntries(all) as Record<string, unknown>;
  };
  const everyPod = [{ namespaceSelector: {} }];
  const webhooks = { generate: true };
  const redis = { url: 'rediss://redis.example.com:6379' };
  expect(await peersOf({ webhooks, redis })).toEqual({
    gateway: everyPod,
    webhooks: undefined,
    '53,53': undefined,
    '443,6443': undefined,
    '6379,26379': undefined,
    '': everyPod,
  });
  const peers = (name: string): object[] => [{ podSelector: { matchLabels: { name } } }];
  const names = ['clients', 'webhookClients', 'apiserver', 'redis', 'functions'];
  const networkPolicy = Object.fromEntries(names.map((name) => [name, peers(name)]));
  expect(await peersOf({ webhooks, redis, networkPolicy })).toEqual({
    gateway: peers('clients'),
    webhooks: peers('webhookClients'),
    '53,53': undefined,
    '443,6443': peers('apiserver'),
    '6379,26379': peers('redis'),
    '': peers('functions'),
  });
});

describe('the rights that values ask for', () => {
  const can = async (account: string, ...what: string[]): Promise<boolean> => {
    const args = ['auth', 'can-i', ...what, '--as', `system:serviceaccount:${account}`];
    return (await installed.kubectl(args).catch(() => 'no')).startsWith('yes');
  };
  const gateway = (namespace: string, ...what: string[]): Promise<boolean> =>
    can('render:test', ...what, '--namespace', namespace);
  const metrics = (): Promise<boolean> => can('web:prometheus', 'get', '/metrics');

  it('let the gateway lend credentials in the namespaces named, and Prometheus read its metrics', async () => {
    const { text } = await render('levelhook', 'levelhook/ci/production-values.yaml');
    const file = join(await started.directory(), 'rights.yaml');
    const isRight = (part: string): boolean => /^kind: (Cluster)?Role(Binding)?$/m.test(part);
    await writeFile(file, text.split(/^---$/m).filter(isRight).join('---\n'));
    const token = ['web', 'shop', 'default'].map(
      (name) => () => gateway(name, 'create', 'serviceaccounts', '--subresource=token'),
    );
    const proxy = ['web', 'default'].map((name) => () => gateway(name, 'impersonate', 'serviceaccounts'));
    const all = [...token, ...proxy, metrics];
    for (const each of all) expect(await each()).toBe(false);
    await installed.kubectl(['apply', '--filename', file]);
    await eventually(async () => {
      const answers: boolean[] = [];
      for (const each of all) answers.push(await each());
      expect(answers).toEqual([true, true, false, true, true, true]);
    });
    await installed.kubectl(['delete', '--filename', file]);
  });

  it('let the gateway act as a function within its own rights, by constrained impersonation', async () => {
    const { text } = await render('levelhook-functions', 'levelhook-functions/ci/credentials-values.yaml');
    const file = join(await started.directory(), 'acts.yaml');
    const isRight = (part: string): boolean =>
      /^kind: (Cluster)?Role(Binding)?$/m.test(part) && part.includes(':gateway-acts');
    await writeFile(file, text.split(/^---$/m).filter(isRight).join('---\n'));
    const acts = (verb: string, resource: string, ...more: string[]): Promise<boolean> =>
      can('levelhook:levelhook', `impersonate-on:serviceaccount:${verb}`, resource, ...more);
    // kubectl knows no ServiceAccounts of this group: the apiserver asks for them when it is told to impersonate.
    const be = async (name: string): Promise<boolean> => {
      const kind = { group: 'authentication.k8s.io', resource: 'serviceaccounts' };
      const resourceAttributes = { ...kind, verb: 'impersonate:serviceaccount', namespace: 'render', name };
      const { status } = await installed.cluster.client.json<{ status: { allowed: boolean } }>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: { spec: { user: 'system:serviceaccount:levelhook:levelhook', resourceAttributes } },
      });
      return status.allowed;
    };
    await installed.kubectl(['apply', '--filename', file]);
    await eventually(async () => {
      expect(await be('proxied')).toBe(true);
      expect(await acts('deletecollection', 'configmaps', '-n', 'web')).toBe(true);
      expect(await acts('patch', 'nodes/n1')).toBe(true);
    });
    // Neither another account, nor what the function may not, nor elsewhere, nor all of it.
    expect(await be('knative')).toBe(false);
    expect(await acts('get', 'secrets', '-n', 'render')).toBe(false);
    expect(await acts('get', 'configmaps', '-n', 'shop')).toBe(false);
    expect(await acts('patch', 'nodes/n2')).toBe(false);
    expect(await can('levelhook:levelhook', 'impersonate', 'serviceaccounts', '-n', 'render')).toBe(false);
    await installed.kubectl(['delete', '--filename', file]);
    expect((await render('levelhook-functions', 'levelhook-functions/ci/all-values.yaml')).text).not.toContain(
      'impersonate',
    );
  });

  it('are none without such values', async () => {
    const { text } = await render('levelhook');
    expect(text).not.toMatch(/serviceaccounts\/token|impersonate\b(?!-on:serviceaccount:create$)|metrics-read/m);
  });
});

describe('a ClusterRole that is aggregated to the gateway', () => {
  const role = (rules: string, more = ''): string => `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: aggregated, labels: { levelhook.dev/aggregate-to-gateway: 'true' } }
rules: ${rules}
${more}`;
  const apply = async (text: string): Promise<string> => {
    const file = join(await started.directory(), 'role.yaml');
    await writeFile(file, text);
    return installed.kubectl(['apply', '--dry-run=server', '--filename', file]);
  };

  it('may read and nothing else, whoever creates it', async () => {
    const { text } = await render('levelhook');
    const file = join(await started.directory(), 'policy.yaml');
    const isPolicy = (part: string): boolean => /^kind: ValidatingAdmissionPolicy/m.test(part);
    await writeFile(file, text.split(/^---$/m).filter(isPolicy).join('---\n'));
    await installed.kubectl(['apply', '--filename', file]);
    const refused = /lets the gateway get, list and watch named resources without subresources, and nothing else/;
    await eventually(async () =>
      expect(apply(role("[{ apiGroups: [''], resources: [pods], verbs: [get, patch] }]"))).rejects.toThrow(refused),
    );
    await expect(apply(role("[{ apiGroups: [''], resources: [pods], verbs: ['*'] }]"))).rejects.toThrow(refused);
    await expect(apply(role("[{ nonResourceURLs: ['/logs'], verbs: [get] }]"))).rejects.toThrow(refused);
    // To get a proxy is to send through it, and to get exec is to run a command.
    for (const each of ['nodes/proxy', 'services/proxy', 'pods/exec', "'*'"]) {
      const named = role(`[{ apiGroups: [''], resources: [${each}], verbs: [get] }]`);
      await expect(apply(named)).rejects.toThrow(refused);
    }
    const indirectly = 'aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: b } }] }';
    await expect(apply(role('[]', indirectly))).rejects.toThrow(refused);
    await apply(role("[{ apiGroups: [''], resources: [pods], verbs: [get, list, watch] }]"));
    await installed.kubectl(['delete', '--filename', file]);
  });
});

it('the chart of functions lets the gateway read the signing Secret of each function, and no other', async () => {
  const { objects } = await render('levelhook-functions', 'examples/greeting.yaml');
  const reading = objects.filter(({ rules = [] }) => rules.some(({ resources = [] }) => resources.includes('secrets')));
  expect(reading).toMatchObject([
    {
      kind: 'Role',
      metadata: { name: 'greeting:gateway-signing', namespace: 'render' },
      rules: [{ resourceNames: ['greeting-signing'], verbs: ['get'] }],
    },
  ]);
  const gateway = await render('levelhook');
  const secrets = gateway.objects.flatMap(({ rules = [] }) =>
    rules.filter(({ resources = [], resourceNames }) => resources.includes('secrets') && !resourceNames),
  );
  expect(secrets).toEqual([]);
});

it('a ServiceMonitor sends the token of Prometheus or that of a Secret, and none by itself', async () => {
  const endpoint = async (values: string): Promise<object | undefined> => {
    const { objects } = await render('levelhook', values);
    const monitor = objects.find(({ kind }) => kind === 'ServiceMonitor');
    return (monitor as { spec?: { endpoints: object[] } } | undefined)?.spec?.endpoints[0];
  };
  expect(await endpoint('levelhook/ci/production-values.yaml')).toMatchObject({
    scheme: 'https',
    bearerTokenFile: '/var/run/secrets/kubernetes.io/serviceaccount/token',
  });
  expect(await endpoint('levelhook/ci/token-values.yaml')).toMatchObject({
    scheme: 'https',
    authorization: { type: 'Bearer', credentials: { name: 'prometheus-token', key: 'token' } },
  });
  const file = join(await started.directory(), 'values.yaml');
  await writeFile(file, 'monitoring: { serviceMonitor: { enabled: true } }');
  expect(Object.keys((await endpoint(file)) ?? {}).toSorted()).toEqual(['interval', 'path', 'port', 'scheme']);
});

it('the optional parts are there when values ask for them', async () => {
  const kinds = async (chart: string, values: string) =>
    new Set((await render(chart, values)).objects.map(({ kind }) => kind));
  expect(await kinds('levelhook', 'levelhook/ci/production-values.yaml')).toEqual(
    new Set([
      'ClusterRole',
      'ClusterRoleBinding',
      'ConfigMap',
      'CustomResourceDefinition',
      'Deployment',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'PrometheusRule',
      'Role',
      'RoleBinding',
      'Secret',
      'Service',
      'ServiceAccount',
      'ServiceMonitor',
    ]),
  );
  const functions = await render('levelhook-functions', 'levelhook-functions/ci/all-values.yaml');
  expect(functions.objects.filter(({ kind }) => kind === 'ScaledObject').map(({ metadata }) => metadata.name)).toEqual([
    'scaled',
  ]);
  expect(functions.text).toContain('apiVersion: serving.knative.dev/v1');
});

it('the right to the Lease in kube-system names the Lease that the gateway takes', async () => {
  const { objects } = await render('levelhook', 'levelhook/ci/production-values.yaml');
  const role = objects.find(({ kind, metadata }) => kind === 'Role' && metadata.namespace === 'kube-system');
  expect(role?.rules?.[0]?.resourceNames).toEqual([leaseName('shop', undefined)]);
});

it.each<[string[], string, string | undefined]>([
  [[], 'levelhook', undefined],
  [['LEVELHOOK_KEY_PREFIX=2024'], '2024', undefined],
  [['LEVELHOOK_CLUSTER_ID=0'], 'levelhook', '0'],
  [['LEVELHOOK_KEY_PREFIX=1000000', 'LEVELHOOK_CLUSTER_ID=2024'], '1000000', '2024'],
])('also when settings are numbers: %s', async (settings, prefix, cluster) => {
  const set = settings.map((each) => `settings.${each}`);
  const { objects } = await render('levelhook', 'levelhook/ci/small-values.yaml', undefined, set);
  const role = objects.find(({ kind, metadata }) => kind === 'Role' && metadata.namespace === 'kube-system');
  expect(role?.rules?.[0]?.resourceNames).toEqual([leaseName(prefix, cluster)]);
});

it('alerts and dashboard name metrics of the gateway only', () => {
  const known = [METRICS.counters, METRICS.gauges, METRICS.histograms].flatMap((each) => Object.keys(each));
  const text = ['rules.yaml', 'grafana.json'].map((file) => readFileSync(join(HELM, 'levelhook/files', file), 'utf8'));
  const named = [...text.join('\n').matchAll(/\b([a-z]+(?:_[a-z]+)+)(?=(?:\\?\{|\{))/g)].map(([, name = '']) => name);
  expect(new Set(named).size).toBeGreaterThan(20);
  const ours = named
    .filter((name) => !/^(process|nodejs)_/.test(name))
    .map((name) => name.replace(/_(bucket|sum|count)$/, ''));
  expect(ours.filter((name) => !known.includes(name))).toEqual([]);
});
