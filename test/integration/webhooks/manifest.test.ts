import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { generateSecret, type WebhookDescription } from '../../../src/contract/index.ts';
import { resolveBinary, startControlPlane } from '../../../src/testing/index.ts';
import { Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, ReconcileFunction } from '../../harness/tenant.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const run = promisify(execFile);

const secrets = resource('v1', 'Secret');
const leases = resource('coordination.k8s.io/v1', 'Lease');
const deployments = resource('apps/v1', 'Deployment');
const definitions = resource<KubernetesObject & { spec: { versions: object[]; conversion: object } }>(
  'apiextensions.k8s.io/v1',
  'CustomResourceDefinition',
  { namespaced: false },
);

const LABEL = { 'levelhook.dev/function': 'greeting' };
/** Nothing listens there. */
const DEAD = 'https://127.0.0.1:9';

const all = { apiVersion: 'v1', kind: 'ConfigMap', operations: ['CREATE', 'UPDATE', 'DELETE'] } as const;
const WEBHOOKS: WebhookDescription[] = [
  { type: 'validating', name: 'names', ...all, matchConditions: [{ name: 'mine', expression: 'true' }] },
  { type: 'mutating', name: 'defaults', ...all, apiVersion: 'v1', kind: 'Secret', namespaces: ['shop', 'other'] },
  { type: 'conversion', name: 'versions', apiVersion: 'example.com/v1', kind: 'Greeting', versions: ['v1', 'v2'] },
];

const version = (name: string, storage: boolean) => ({
  name,
  served: true,
  storage,
  schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
});
const DEFINITION = `# The greetings of a shop.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: greetings.example.com }
spec:
  group: example.com
  names: { kind: Greeting, plural: greetings, singular: greeting }
  scope: Namespaced
  versions: ${JSON.stringify([version('v1', true), version('v2', false)])}
`;

/** The control plane is this test's own: its webhooks are dead, and refuse what others write. */
describe('the webhooks that levelhook manifest prints', () => {
  const started = new Started();
  const secret = generateSecret();
  const greeting = new RawFunction({
    name: 'greeting',
    for: { apiVersion: 'v1', kind: 'ConfigMap' },
    concurrency: 1,
    timeoutSeconds: 15,
    webhooks: WEBHOOKS,
  });
  let cluster: Cluster;
  let environment: Record<string, string>;
  let folder: string;

  beforeAll(async () => {
    const plane = await startControlPlane();
    started.add(() => plane.stop());
    cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    await started.open(greeting);
    folder = await started.directory();
    const kubectl = dirname(await resolveBinary('kubectl'));
    const PATH = `${kubectl}:${dirname(process.execPath)}:${process.env['PATH']}`;
    environment = { PATH, HOME: folder, KUBECONFIG: plane.kubeconfig, LEVELHOOK_SIGNING_SECRETS: secret };
    await installReconcileFunctions(cluster);
    await writeFile(join(folder, 'crd.yaml'), DEFINITION);
    await kubectlWith('apply', '--server-side', '-f', join(folder, 'crd.yaml'));
    for (const name of ['shop', 'other', 'levelhook']) await cluster.createNamespace(name);
  }, 300_000);
  afterAll(() => started.stop());

  const command = async (file: string, ...args: string[]): Promise<string> => {
    const { stdout } = await run(file, args, { cwd: ROOT, env: environment, maxBuffer: 2 ** 24 });
    return stdout;
  };
  const kubectlWith = (...args: string[]): Promise<string> => command('kubectl', ...args);
  const manifest = (...args: string[]): Promise<string> =>
    command('npm', 'run', '-s', 'levelhook', 'manifest', '--', greeting.url, '--namespace', 'shop', ...args);

  async function write(name: string, text: string): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  }

  const refused = expect.stringMatching(/failed calling webhook "(names|defaults)\.greeting\.shop\.levelhook\.dev"/);
  /** Whether a new object is let through, by a dry run, or why not. */
  async function verdict(of: Resource, object: { metadata: object; [field: string]: unknown }): Promise<string> {
    const { apiVersion, kind } = of;
    const path = await write('object.json', JSON.stringify({ apiVersion, kind, ...object }));
    try {
      await kubectlWith('create', '--dry-run=server', '-f', path);
      return 'allowed';
    } catch (error) {
      return String((error as { stderr?: unknown }).stderr);
    }
  }

  it('are taken by the apiserver as the comment above them says, and leave the other fields of a definition alone', async () => {
    const text = await manifest('--webhook-url', DEAD);
    const file = await write('greeting.yaml', text);
    const line = text.split('\n').find((each) => each.includes('kubectl apply --server-side')) ?? '';
    await command('sh', '-c', line.slice(1).replace('FILE', file));
    const definition = await cluster.get(definitions, { name: 'greetings.example.com' });
    expect(definition).toMatchObject({
      metadata: { labels: { 'levelhook.dev/inject-ca': 'true' } },
      spec: {
        versions: [{ name: 'v1' }, { name: 'v2' }],
        conversion: {
          strategy: 'Webhook',
          webhook: { clientConfig: { url: `${DEAD}/webhooks/shop.greeting/versions` } },
        },
      },
    });
    // And the other way round: the definition itself, when it is applied again, leaves the conversion.
    await kubectlWith('apply', '--server-side', '-f', join(folder, 'crd.yaml'));
    expect((await cluster.get(definitions, { name: 'greetings.example.com' }))?.spec.conversion).toMatchObject({
      strategy: 'Webhook',
    });
    expect(await kubectlWith('-n', 'shop', 'get', 'reconcilefunction', 'greeting', '-o', 'name')).toContain('greeting');
    const may = (verb: string, what: string, where: string) =>
      kubectlWith('auth', 'can-i', verb, what, '-n', where, '--as=system:serviceaccount:shop:greeting').catch(
        () => 'no',
      );
    // The apiserver learns of the rights a moment after they are applied.
    await eventually(async () => expect((await may('update', 'secrets', 'other')).trim()).toBe('yes'));
    expect(await may('update', 'secrets', 'default')).toBe('no');
    expect(await may('update', 'configmaps', 'shop')).toBe('no');
    expect((await may('create', 'greetings.v1.example.com', 'default')).trim()).toBe('yes');
  });

  it('come with the whole definition from a file, which keeps its comments', async () => {
    const text = await manifest('--webhook-url', DEAD, '--crd', join(folder, 'crd.yaml'));
    expect(text).toContain('# The greetings of a shop.');
    expect(text).not.toContain('--field-manager');
    const merged = parseAllDocuments(text).map((each) => (each as { toJS(): KubernetesObject }).toJS());
    expect(merged.at(-1)).toMatchObject({
      kind: 'CustomResourceDefinition',
      metadata: { labels: LABEL },
      spec: { versions: [{}, {}], conversion: { strategy: 'Webhook' } },
    });
    await kubectlWith(
      'apply',
      '--server-side',
      '--dry-run=server',
      '--force-conflicts',
      '-f',
      await write('all.yaml', text),
    );
  });

  it.each([
    ['--service greeting:8443 --direct', '--direct needs --cert-manager or --ca-file'],
    ['--gateway-service levelhook', '--gateway-service "levelhook" must be NAMESPACE/NAME:PORT'],
    [`--crd ${import.meta.filename}`, `--crd ${import.meta.filename} is not YAML`],
    ['--crd package.json', '--crd package.json has no CustomResourceDefinition greetings.example.com'],
  ])('with %s: one sentence and exit code 1', async (args, message) => {
    const failure = await manifest(...args.split(' ')).then(
      () => undefined,
      (error: unknown) => error as { code: number; stderr: string },
    );
    expect(failure).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
    expect(failure?.stderr.trim().split('\n')).toHaveLength(1);
  });

  describe('when nothing answers them', () => {
    const inShop = (name: string, labels: object = {}) => ({ metadata: { namespace: 'shop', name, labels } });
    const lease = { spec: { holderIdentity: 'a' } };
    const declaration = {
      spec: {
        endpoint: { url: 'https://a.example.com' },
        serviceAccountName: 'greeting',
        signingSecret: { name: 'a' },
        for: { apiVersion: 'v1', kind: 'ConfigMap' },
      },
    };
    const pod = { spec: { containers: [{ name: 'a', image: 'a' }] } };
    const scaled = {
      spec: {
        selector: { matchLabels: { a: 'b' } },
        template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'a', image: 'a' }] } },
      },
    };

    it('what they name is refused, and what mends them is not', async () => {
      await eventually(async () => {
        expect(await verdict(configMaps, { metadata: { namespace: 'other', name: 'a' } })).toEqual(refused);
        expect(await verdict(secrets, { metadata: { namespace: 'other', name: 'a' } })).toEqual(refused);
      });
      expect(await verdict(configMaps, inShop('a'))).toEqual(refused);
      expect(await verdict(configMaps, inShop('a', LABEL))).toBe('allowed');
      expect(await verdict(secrets, inShop('a', LABEL))).toBe('allowed');
      // The label of another function, and the same label elsewhere.
      expect(await verdict(secrets, inShop('a', { 'levelhook.dev/function': 'other' }))).toEqual(refused);
      expect(await verdict(secrets, { metadata: { namespace: 'other', name: 'a', labels: LABEL } })).toEqual(refused);
      for (const namespace of ['levelhook', 'kube-system']) {
        expect(await verdict(configMaps, { metadata: { namespace, name: 'a' } })).toBe('allowed');
      }
    });

    it('the same holds for webhooks for everything', async () => {
      const applied = await kubectlWith(
        'get',
        'validatingwebhookconfiguration',
        'greeting.shop.levelhook.dev',
        '-o',
        'yaml',
      );
      const configuration = parse(applied) as { webhooks: { rules: object[] }[] };
      for (const webhook of configuration.webhooks) {
        webhook.rules = [{ apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['*'] }];
      }
      await cluster.create(deployments, { ...inShop('greeting', LABEL), ...scaled });
      await cluster.create(configMaps, inShop('kept', LABEL));
      await kubectlWith('replace', '-f', await write('wide.yaml', stringify(configuration)));
      await eventually(async () => {
        expect(await verdict(pods, { metadata: { namespace: 'other', name: 'a' }, ...pod })).toEqual(refused);
      });
      expect(await verdict(pods, { metadata: { namespace: 'other', name: 'a', labels: LABEL }, ...pod })).toEqual(
        refused,
      );
      // Cluster-scoped objects have no namespace, and a label there is anybody's.
      const roles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', { namespaced: false });
      expect(await verdict(roles, { metadata: { name: 'a', labels: LABEL }, rules: [] })).toEqual(refused);

      expect(await verdict(pods, { ...inShop('a', LABEL), ...pod })).toBe('allowed');
      expect(await verdict(ReconcileFunction, { ...inShop('a'), ...declaration })).toBe('allowed');
      expect(await verdict(leases, { metadata: { namespace: 'other', name: 'a' }, ...lease })).toBe('allowed');
      expect(await verdict(configMaps, { metadata: { namespace: 'kube-system', name: 'a' } })).toBe('allowed');
      // What has a label and no object of its kind in its body: a scaler starts the function, DELETE has an old object.
      await kubectlWith('-n', 'shop', 'scale', 'deployment', 'greeting', '--replicas=3');
      await kubectlWith('-n', 'shop', 'delete', 'configmap', 'kept');
      await expect(kubectlWith('-n', 'other', 'delete', 'serviceaccount', '--all')).resolves.toBeDefined();
      await kubectlWith('label', 'crd', 'reconcilefunctions.levelhook.dev', 'a=b');
      await expect(kubectlWith('label', 'crd', 'greetings.example.com', 'a=b')).rejects.toThrow(
        'failed calling webhook',
      );
      await kubectlWith('label', 'namespace', 'levelhook', 'a=b');
      await expect(kubectlWith('label', 'namespace', 'other', 'a=b')).rejects.toThrow('failed calling webhook');
      // The configuration itself is never reviewed: whoever may delete it can always do so.
      await kubectlWith('delete', 'validatingwebhookconfiguration', 'greeting.shop.levelhook.dev');
      await eventually(async () => {
        expect(await verdict(configMaps, { metadata: { namespace: 'other', name: 'a' } })).toBe('allowed');
      });
    });
  });
});
