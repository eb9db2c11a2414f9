import { readFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { describe, expect } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { resource } from '../../../src/core/index.ts';
import { resolveBinary } from '../../../src/testing/index.ts';
import { configMaps, pods } from '../../harness/cluster.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { installReconcileFunctions, ReconcileFunction, Tenant } from '../../harness/tenant.ts';
import { UserCommand } from '../../harness/user-command.ts';
import { it, type World } from '../../harness/world.ts';
import { IN_A_CLUSTER } from './in-a-cluster.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const nodes = resource('v1', 'Node', { namespaced: false });

describe('levelhook manifest', () => {
  let world: World;
  let observer: Observer;

  it.beforeAll(async ({ world: made }) => {
    world = made;
    const { cluster, namespace, setting, started } = world;
    await installReconcileFunctions(cluster);
    const sources = {
      for: { resource: configMaps, namespaces: [namespace] },
      owns: [{ resource: pods, namespaces: [namespace] }],
      reads: [nodes],
    };
    observer = started.keep(await openObserver(setting, { name: 'greeting', ...sources }));
  });

  async function shell(
    text: string,
    env: Record<string, string> = {},
  ): Promise<{ code: number | string; stdout: string; stderr: string }> {
    const { setting, started } = world;
    const kubectl = dirname(await resolveBinary('kubectl'));
    const PATH = [kubectl, dirname(process.execPath), process.env['PATH']].join(delimiter);
    const given = { PATH, KUBECONFIG: setting.kubeconfig, LEVELHOOK_SIGNING_SECRETS: setting.secret, ...env };
    const command = new UserCommand('sh', ['-c', text], { cwd: ROOT, env: given });
    started.add(() => command.clean());
    const code = await command.exited;
    return { code, stdout: command.stdout.join('\n'), stderr: command.stderr.join('\n') };
  }

  it("the README's commands make of a function a ReconcileFunction that runs, with the rights that it needs and no others", async () => {
    const { cluster, namespace, started } = world;
    const file = join(await started.directory(), 'greeting.yaml');
    const commands = IN_A_CLUSTER.replaceAll('shop', namespace)
      .replaceAll('greeting.yaml', file)
      .replace('http://127.0.0.1:8080', observer.url);
    const all = await shell(`set -e\n${commands}`);
    expect(all, all.stderr).toMatchObject({ code: 0 });
    expect(all.stdout).toMatch(/greeting +ConfigMap/);
    const printed = await readFile(file, 'utf8');
    expect(printed).toContain("#   { apiGroups: [''], resources: [configmaps/finalizers], verbs: [update] }\n");
    const reviewed = (verb: string, what: string, where: string) =>
      shell(`kubectl auth can-i ${verb} ${what} --as system:serviceaccount:${namespace}:greeting ${where}`);
    for (const [what, where] of [
      ['configmaps', `-n ${namespace}`],
      ['pods', `-n ${namespace}`],
      ['nodes', ''],
    ] as const) {
      expect((await reviewed('watch', what, where)).stdout, what).toBe('yes');
      expect((await reviewed('create', what, where)).stdout, what).toBe('no');
    }
    expect((await reviewed('list', 'configmaps', '-n default')).stdout).toBe('no');
    expect((await reviewed('list', 'secrets', `-n ${namespace}`)).stdout).toBe('no');

    // As it was written it is called at a Service, which nothing stands behind here: at its URL it runs.
    const tenant = new Tenant(cluster, namespace);
    await shell(
      `kubectl -n ${namespace} create secret generic greeting-signing --from-literal=secrets="$LEVELHOOK_SIGNING_SECRETS"`,
    );
    await cluster.patch(
      ReconcileFunction,
      { namespace, name: 'greeting' },
      { spec: { endpoint: { url: observer.url, service: null } } },
    );
    await world.gateway([], {
      LEVELHOOK_RECONCILE_FUNCTIONS: `test.levelhook.dev/gateway=${namespace}`,
      LEVELHOOK_ALLOWED_ENDPOINTS: new URL(observer.url).origin,
    });
    await cluster.patch(
      ReconcileFunction,
      { namespace, name: 'greeting' },
      { metadata: { labels: { 'test.levelhook.dev/gateway': namespace } } },
    );
    await tenant.until('greeting', 'Ready', { status: 'True' });
    await shell(`kubectl delete clusterrole,clusterrolebinding ${namespace}:greeting:reads`);
    await tenant.remove('greeting');
  });

  it('says in YAML what it would take at a URL', async ({ world: { setting } }) => {
    const { stdout } = await shell(`npm run -s levelhook manifest -- ${observer.url} --namespace shop`);
    const kinds = parseAllDocuments(stdout).map((each) => (each as { toJS(): { kind: string } }).toJS().kind);
    expect(kinds).toEqual([
      'ServiceAccount',
      'Role',
      'RoleBinding',
      'ClusterRole',
      'ClusterRoleBinding',
      'ReconcileFunction',
    ]);
    expect(stdout).not.toContain(setting.secret);
    expect(stdout).toContain("# the function's own writes are yours to add to its ServiceAccount.\n");
    expect(stdout).not.toContain('credentials:');
    const { stdout: lent } = await shell(
      `npm run -s levelhook manifest -- ${observer.url} --namespace shop --credentials proxy`,
    );
    expect(lent).toContain('\n  credentials: proxy\n');
  });

  it.each<[string, string, Record<string, string>, string]>([
    [
      'without secrets',
      'URL --namespace shop',
      { LEVELHOOK_SIGNING_SECRETS: '' },
      'LEVELHOOK_SIGNING_SECRETS is not set',
    ],
    [
      'with another secret',
      'URL --namespace shop',
      { LEVELHOOK_SIGNING_SECRETS: `whsec_${Buffer.alloc(32).toString('base64')}` },
      'refuses the signature',
    ],
    ['at an address without a server', 'http://127.0.0.1:9 --namespace shop', {}, 'connection refused'],
    ['at no URL', 'greeting --namespace shop', {}, 'is not the URL'],
    ['without a namespace', 'URL', {}, '--namespace'],
    ['with a namespace that is none', 'URL --namespace ../shop', {}, '--namespace: "../shop" is not a valid name'],
    ['with a Secret that is none', 'URL --namespace shop --secret a/b', {}, '--secret: "a/b" is not a valid name'],
    ['with credentials of nobody', 'URL --namespace shop --credentials mine', {}, '--credentials "mine" must be own'],
    ['with a Service without a port', 'URL --namespace shop --service greeting', {}, '--service greeting must be'],
  ])('%s says what is wrong in one sentence', async (_what, args, env, message) => {
    const { code, stderr } = await shell(`npm run -s levelhook manifest -- ${args.replace('URL', observer.url)}`, env);
    expect(code).toBe(1);
    expect(stderr.split('\n')).toHaveLength(1);
    expect(stderr).toContain(message);
  });
});
