import { readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { describe, expect } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { resource } from '../../../src/core/index.ts';
import { resolveBinary, startControlPlane } from '../../../src/testing/index.ts';
import { configMaps, pods } from '../../harness/cluster.ts';
import { startFunction, startGateway } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { UserCommand } from '../../harness/user-command.ts';
import { eventually } from '../../harness/eventually.ts';
import { it, type World } from '../../harness/world.ts';
import { IN_A_CLUSTER } from './in-a-cluster.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const nodes = resource('v1', 'Node', { namespaced: false });

describe('levelhook manifest', () => {
  let world: World;
  let observer: Observer;

  it.beforeAll(async ({ world: made }) => {
    world = made;
    const { namespace, setting, started } = world;
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

  it("the documents' commands give gateway and function all that they need to run in a cluster, and no more", async () => {
    const { setting: shared, started } = world;
    const plane = await startControlPlane();
    started.add(() => plane.stop());
    // The Redis is shared. The keys of this cluster are under its own ID, and the Lease has the name of the rights.
    const setting = { ...shared, kubeconfig: plane.kubeconfig, keyPrefix: 'levelhook' };
    const directory = await started.directory();
    const file = join(directory, 'greeting.yaml');
    const here = await startFunction(setting, 'examples/01-minimal');
    started.keep(here);
    const run = async (text: string): Promise<string> => {
      const { code, stdout, stderr } = await shell(`set -e\n${text}`, { KUBECONFIG: setting.kubeconfig });
      expect(code, stderr).toBe(0);
      return stdout;
    };
    for (const block of IN_A_CLUSTER) {
      const printed = await run(block.replaceAll('greeting.yaml', file).replace('http://127.0.0.1:8080', here.url));
      if (block.includes('get reconcilefunctions')) expect(printed).toMatch(/^greeting +ConfigMap/m);
    }
    const may = (verb: string, what: string) =>
      run(`kubectl auth can-i ${verb} ${what} -A --as system:serviceaccount:shop:greeting || true`);
    // The apiserver learns of roles by a watch.
    await eventually(async () => {
      expect([await may('watch', 'configmaps'), await may('create', 'configmaps')]).toEqual(['yes', 'yes']);
      expect(await may('update', 'configmaps --subresource=finalizers')).toBe('yes');
    });
    expect([await may('delete', 'configmaps'), await may('list', 'secrets')]).toEqual(['no', 'no']);

    // In place of the pods of both Deployments run the same programs with the tokens of their accounts. No Service
    // leads to them, so the function is at a URL.
    const as = async (namespace: string, account: string): Promise<string> => {
      const config = parse(await readFile(setting.kubeconfig, 'utf8')) as { users: { user: object }[] };
      const token = await run(`kubectl -n ${namespace} create token ${account}`);
      for (const each of config.users) each.user = { token };
      const path = join(directory, `${account}.kubeconfig`);
      await writeFile(path, stringify(config), { mode: 0o600 });
      return path;
    };
    const secrets = await run("kubectl -n shop get secret greeting-signing -o jsonpath='{.data.secrets}' | base64 -d");
    const account = { ...setting, secret: secrets, kubeconfig: await as('shop', 'greeting') };
    const fn = started.keep(await startFunction(account, 'examples/01-minimal'));
    await run(
      `kubectl -n shop patch reconcilefunction greeting --type=merge -p '{"spec":{"endpoint":{"url":"${fn.url}","service":null}}}'`,
    );
    const gateway = await startGateway({ ...setting, kubeconfig: await as('levelhook', 'gateway') }, [], {
      LEVELHOOK_RECONCILE_FUNCTIONS: 'all',
      LEVELHOOK_LEASE: 'levelhook/levelhook',
      LEVELHOOK_ALLOWED_ENDPOINTS: new URL(fn.url).origin,
    });
    started.keep(gateway);
    await run('kubectl -n shop wait reconcilefunction/greeting --for=condition=Ready --timeout=60s');
    await run('kubectl -n shop create configmap ann --from-literal=name=Ann');
    await run('kubectl -n shop label configmap ann greet=true');
    await run('kubectl -n shop wait configmap/ann-greeting --for=create --timeout=60s');
    expect(await run("kubectl -n shop get configmap ann-greeting -o jsonpath='{.data.text}'")).toBe('Hello, Ann!');
    expect(gateway.process.output).not.toContain('orbidden');
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
    expect(stdout).toContain(
      '# does not declare its own writes: declare them (`writes`), or add the rights for them to its ServiceAccount.\n',
    );
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
