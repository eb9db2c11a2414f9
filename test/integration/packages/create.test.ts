import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ClusterRole, ClusterRoleBinding, ConfigMap, Namespace, Secret } from 'levelhook/function/kinds';
import { type ControlPlane, RealApiserver, startControlPlane, testContext } from 'levelhook/testing';
import { afterAll, afterEach, beforeAll, expect, inject, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { resource } from '../../../src/core/index.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { ReconcileFunction } from '../../../src/gateway/registration/reconcile-function.ts';
import { CreatedProjects, npm, npmInstall, run } from '../../harness/created-project.ts';
import { eventually } from '../../harness/eventually.ts';
import { accountFiles } from '../../harness/account-files.ts';
import { applyManifests, serviceAccountKubeconfig } from '../../harness/identity.ts';
import { createSetting, functionVariables, startGateway } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { UserCommand } from '../../harness/user-command.ts';

const site = resource('example.com/v1', 'Site');

const started = new Started();
let projects: CreatedProjects;
let workspace: string;
let command: UserCommand | undefined;

beforeAll(() => {
  projects = new CreatedProjects();
  workspace = projects.folder;
}, 300_000);

/** Go compiles into the cache of the machine. */
const GO = { GOPROXY: 'off', GOFLAGS: '-mod=mod' };

afterEach(async () => {
  await command?.clean();
  command = undefined;
});

afterAll(async () => {
  await started.stop();
  projects.clean();
});

async function create(name: string, ...flags: readonly string[]): Promise<string> {
  const { folder, stdout } = await projects.write(name, ...flags);
  expect(stdout).toMatch(/^wrote \d+ files to /);
  await npmInstall(folder);
  return folder;
}

it('a new project checks and tests itself, runs, and follows its files', async () => {
  const folder = await create('site');
  npm(folder, 'run', 'check');
  expect(npm(folder, 'test')).toMatch(/Tests +2 passed/);
  expect(npm(folder, 'run', 'test:cluster')).toMatch(/Tests +1 passed/);

  command = new UserCommand('npm', ['run', 'dev', '--', '--port', '0'], { cwd: folder, keys: true });
  await command.line(/^levelhook ready$/);
  const cluster = await Cluster.connect(join(folder, '.levelhook/control-plane/kubeconfig'));
  const key = { namespace: 'default', name: 'hello' };
  const textOf = async (): Promise<string | undefined> =>
    (await cluster.get(configMaps, { namespace: 'default', name: 'hello-text' }))?.data?.['text'];
  await cluster.create(site, { metadata: key, spec: { text: 'Hello. ', times: 2 } });
  await command.line(/ site +default\/hello +added Site hello .* done, 2 writes$/);
  expect(await textOf()).toBe('Hello. Hello. ');
  // The status is shown as the column of the kind says.
  const table = await cluster.client.json<{ rows: { cells: unknown[] }[] }>({
    path: '/apis/example.com/v1/namespaces/default/sites',
    accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
  });
  expect(table.rows[0]?.cells.slice(0, 2)).toEqual(['hello', 'True']);

  const file = join(folder, 'src/site.ts');
  writeFileSync(file, readFileSync(file, 'utf8').replace('.repeat(', '.toUpperCase().repeat('));
  await eventually(async () => expect(command?.stderr.join('\n')).toContain('src/node.ts started again'));
  await cluster.patch(site, key, { spec: { times: 1 } });
  await eventually(async () => expect(await textOf()).toBe('HELLO. '));

  // A field of the kind: the check is stale, the definition follows, and the cluster takes it.
  const kinds = join(folder, 'src/kinds.ts');
  writeFileSync(
    kinds,
    readFileSync(kinds, 'utf8').replace('times?: number;', "times?: number;\n  tone?: 'low' | 'loud';"),
  );
  expect(() => npm(folder, 'run', 'check')).toThrow(/crds\/sites\.example\.com\.yaml is not what the types say/);
  npm(folder, 'run', 'crds');
  await eventually(async () => {
    await expect(cluster.patch(site, key, { spec: { tone: 'wild' } })).rejects.toThrow(/Unsupported value/);
  });
  await cluster.close();
  command.press('q');
  expect(await command.exited, command.output).toBe(0);
});

/** What somebody needs who installs a function: `escalate` and `bind` stand for having the rights that are given. */
const INSTALLER: readonly Rule[] = [
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: ['get', 'create'] },
  { apiGroups: [''], resources: ['serviceaccounts'], verbs: ['get', 'create'] },
  {
    apiGroups: ['rbac.authorization.k8s.io'],
    resources: ['clusterroles', 'clusterrolebindings'],
    verbs: ['get', 'create', 'escalate', 'bind'],
  },
  { apiGroups: ['levelhook.dev'], resources: ['reconcilefunctions'], verbs: ['get', 'create', 'patch'] },
];

it.each([
  ['typescript', 'leaf', 'Leaf', 'update'],
  ['python', 'page', 'Page', 'update'],
  ['go', 'sheet', 'Sheet', 'patch'],
])(
  'a definition and manifests of a project in %s are applied by a restricted user, and their rights suffice and are all used',
  async (language, name, kind, verb) => {
    const folder = await create(name, '--language', language, '--kind', `example.com/v1/${kind}`);
    const plural = `${name}s`;
    const of = resource('example.com/v1', kind, { plural });
    const plane = await startControlPlane({
      users: [{ name: 'installer' }],
      apiserverArguments: ['--enable-admission-plugins=OwnerReferencesPermissionEnforcement'],
    });
    started.add(() => plane.stop());
    const { api } = testContext({ apiserver: new RealApiserver(plane.kubeconfig), timeoutSeconds: 600 });
    await api.create(Namespace, { metadata: { name: 'levelhook' } });
    await api.create(ClusterRole, { metadata: { name: 'installer' }, rules: [...INSTALLER] });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'installer' };
    const subjects = [{ kind: 'User', name: 'installer' }];
    await api.create(ClusterRoleBinding, { metadata: { name: 'installer' }, roleRef, subjects });
    await applyManifests(plane, ['infra/crds/levelhook.dev_reconcilefunctions.yaml']);

    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    const stringData = { secrets: setting.secret };
    await api.create(Secret, { metadata: { namespace: 'levelhook', name: `${name}-signing` }, stringData });
    const start = async (kubeconfig: string): Promise<string> => {
      const listen = { LEVELHOOK_SIGNING_SECRETS: setting.secret, HOST: '127.0.0.1', PORT: '0' };
      const own =
        language === 'typescript'
          ? functionVariables({ ...setting, kubeconfig })
          : await accountFiles(kubeconfig, await started.directory());
      if (language === 'go')
        await run('go', ['build', '-o', 'built', '.'], { cwd: folder, env: { ...process.env, ...GO } });
      const [program = '', ...args] = PROGRAMS[language] ?? [];
      const fn = new UserCommand(program, args, { cwd: folder, env: { ...listen, ...own } });
      started.add(() => fn.clean());
      const { url } = JSON.parse(await fn.line(/"msg": ?"listening"/)) as { url: string };
      return url;
    };
    const levelhook = join(folder, 'node_modules/.bin/levelhook');
    const asked = await start(plane.kubeconfig);
    const env = { ...process.env, LEVELHOOK_SIGNING_SECRETS: setting.secret };
    const { stdout } = await run(
      process.execPath,
      [
        levelhook,
        'manifest',
        asked,
        '--namespace',
        'levelhook',
        '--kubeconfig',
        await withDefinition(plane, join(folder, `crds/${plural}.example.com.yaml`)),
      ],
      { cwd: folder, env },
    );
    const file = join(workspace, `${name}.yaml`);
    writeFileSync(file, stdout);
    await applyManifests({ kubeconfig: plane.kubeconfigFor('installer') }, [file]);

    const account = await serviceAccountKubeconfig(plane, name);
    const url = await start(account);
    await api.patch(
      ReconcileFunction,
      { namespace: 'levelhook', name },
      { type: 'merge', body: { spec: { endpoint: { url } } } },
    );
    const gateway = await startGateway(setting, [], {
      LEVELHOOK_RECONCILE_FUNCTIONS: 'all',
      LEVELHOOK_ALLOWED_ENDPOINTS: new URL(url).origin,
    });
    started.keep(gateway);
    const key = { namespace: 'default', name: 'hello' };
    await api.create(of, { metadata: key, spec: { text: 'Hello. ' } } as never);
    const text = async () => (await api.get(ConfigMap, { namespace: 'default', name: 'hello-text' }))?.data?.['text'];
    await eventually(async () => expect(await text()).toBe('Hello. '));
    await api.patch(of, key, { type: 'merge', body: { spec: { text: 'Good day. ' } } });
    await eventually(async () => expect(await text()).toBe('Good day. '));
    await eventually(async () => {
      const found = (await api.get(of, key)) as { status?: { conditions?: unknown[] } } | undefined;
      expect(found?.status?.conditions).toMatchObject([{ type: 'Ready', status: 'True', observedGeneration: 2 }]);
    });
    // The create, the two updates and the owner reference took each right to write; more would be one too many.
    const roles = parseAllDocuments(stdout).map((each) => (each as { toJS(): unknown }).toJS() as Role);
    const rules = roles.find(({ metadata }) => metadata?.name === `levelhook:${name}:writes`)?.rules ?? [];
    const rights = rules.flatMap(({ resources, verbs }) =>
      resources.flatMap((each) => verbs.map((v) => `${v} ${each}`)),
    );
    expect(rights.toSorted()).toEqual(
      ['create configmaps', `${verb} configmaps`, `${verb} ${plural}/status`, `update ${plural}/finalizers`].toSorted(),
    );
  },
);

const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  typescript: [process.execPath, 'src/node.ts'],
  python: ['python3', 'function.py'],
  go: ['./built'],
};

interface Rule {
  readonly apiGroups: string[];
  readonly resources: string[];
  readonly verbs: string[];
}
interface Role {
  readonly metadata?: { readonly name: string };
  readonly rules?: readonly Rule[];
}

/** The installer's kubeconfig, once the definitions of the project are there. */
async function withDefinition(plane: ControlPlane, file: string): Promise<string> {
  const installer = plane.kubeconfigFor('installer');
  await applyManifests({ kubeconfig: installer }, [file]);
  return installer;
}

it('a new project for a kind of Kubernetes checks and tests itself', async () => {
  const folder = await create('marks', '--kind', 'v1/Service');
  npm(folder, 'run', 'check');
  expect(npm(folder, 'test')).toMatch(/Tests +2 passed/);
  expect(npm(folder, 'run', 'test:cluster')).toMatch(/Tests +1 passed/);

  const add = (...args: readonly string[]): string => npm(folder, 'exec', '--', 'levelhook', 'add', ...args);
  expect(add('controller', 'report', '--kind', 'example.com/v1/Report')).toContain('wrote src/node.ts\n');
  expect(add('kind', 'example.com/v1/Draft')).toContain('wrote crds/drafts.example.com.yaml\n');
  expect(add('webhook', 'names', '--kind', 'v1/Service')).toContain('webhooks: [names] in its options.\n');
  npm(folder, 'run', 'check');
  expect(npm(folder, 'test')).toMatch(/Tests +4 passed/);
  expect(npm(folder, 'run', 'test:cluster')).toMatch(/Tests +2 passed/);
});

it.each([
  ['python', 'tally', 'example.com/v1/Counter'],
  ['python', 'tags', 'v1/Service'],
  ['go', 'gauge', 'example.com/v1/Gauge'],
  ['go', 'hints', 'v1/Service'],
])('a new project in %s tests itself and runs: %s', async (language, name, kind) => {
  const folder = await create(name, '--language', language, '--kind', kind);
  npm(folder, 'test');
  npm(folder, 'run', 'test:cluster');
  command = new UserCommand('npm', ['run', 'dev', '--', '--port', '0'], { cwd: folder, keys: true, env: GO });
  await command.line(/^levelhook ready$/);
  const cluster = await Cluster.connect(join(folder, '.levelhook/control-plane/kubeconfig'));
  const [group, version, own] = kind.split('/');
  const isOwn = own !== undefined;
  const of = isOwn ? resource(`${group}/${version}`, own) : resource('v1', 'Service');
  const metadata = { namespace: 'default', name: 'hello', labels: { [name]: 'true', color: 'blue' } };
  const key = { namespace: 'default', name: `hello-${isOwn ? 'text' : 'labels'}` };
  const data = async () => (await cluster.get(configMaps, key))?.data;
  await cluster.create(of, {
    metadata,
    spec: isOwn ? { text: 'Hello. ', times: 2 } : { ports: [{ port: 80 }] },
  });
  await eventually(async () =>
    expect(await data()).toEqual(isOwn ? { text: 'Hello. Hello. ' } : { [name]: 'true', color: 'blue' }),
  );
  const changed = isOwn ? { spec: { times: 1 } } : { metadata: { labels: { color: null } } };
  await cluster.patch(of, metadata, changed);
  await eventually(async () => expect(await data()).toEqual(isOwn ? { text: 'Hello. ' } : { [name]: 'true' }));
  if (isOwn) {
    await eventually(async () => {
      const found = (await cluster.get(of, metadata)) as { status?: { conditions?: unknown[] } } | undefined;
      expect(found?.status?.conditions).toMatchObject([{ type: 'Ready', status: 'True', observedGeneration: 2 }]);
    });
  }
  await cluster.close();
  command.press('q');
  expect(await command.exited, command.output).toBe(0);
});

it('a wrong answer gets one sentence, and nothing is written', async () => {
  mkdirSync(join(workspace, 'full'), { recursive: true });
  writeFileSync(join(workspace, 'full/mine.txt'), '');
  for (const [args, sentence] of [
    [[join(workspace, 'full')], /^create-levelhook: \S+full is not empty \(mine\.txt\): name another folder\.\n$/],
    [
      [join(workspace, 'fresh'), '--kind', 'Site'],
      /^create-levelhook: "Site" is no kind: write it as example\.com\/v1\/Site, /,
    ],
    [[join(workspace, 'fresh'), '--nonsense'], /^create-levelhook: Unknown option '--nonsense'/],
    [
      [join(workspace, 'fresh'), '--language', 'rust'],
      /^create-levelhook: "rust" is no language that a project can have/,
    ],
    [[join(workspace, 'fresh'), '--package-manager', 'yarn'], /^create-levelhook: "yarn" is no package manager /],
  ] as const) {
    const failed = run(process.execPath, [projects.program, ...args]);
    await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(sentence) as string });
  }
  expect(existsSync(join(workspace, 'fresh'))).toBe(false);
});
