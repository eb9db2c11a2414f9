import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { packPackages, type PackedPackages, unpackInto } from '../../../infra/checks/packed-packages.ts';
import { resource } from '../../../src/core/index.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { UserCommand } from '../../harness/user-command.ts';

const site = resource('example.com/v1', 'Site');
const run = promisify(execFile);

let workspace: string;
let packed: PackedPackages;
let command: UserCommand | undefined;

beforeAll(() => {
  workspace = mkdtempSync(join(tmpdir(), 'levelhook-create-'));
  packed = packPackages(workspace);
}, 300_000);

afterEach(async () => {
  await command?.clean();
  command = undefined;
});

afterAll(() => rmSync(workspace, { recursive: true, force: true }));

/** A project as `npm create levelhook` makes it, with the packages of this tree in place of those of the registry. */
async function create(name: string, ...flags: readonly string[]): Promise<string> {
  const create = unpackInto(join(workspace, 'npx'), 'create-levelhook', packed.create);
  const folder = join(workspace, name);
  const args = [join(create, 'create-levelhook.js'), folder, '--no-install', ...flags];
  // Node 20 does, as npm runs it on the machine of a newcomer.
  const { stdout } = await run(existsSync('/usr/bin/node') ? '/usr/bin/node' : process.execPath, args);
  expect(stdout).toMatch(/^wrote \d+ files to /);
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<
    string,
    Record<string, string>
  >;
  const { dependencies = {}, devDependencies = {} } = manifest;
  dependencies['@levelhook/function'] = `file:${packed.function}`;
  devDependencies['levelhook'] = `file:${packed.levelhook}`;
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  await run('npm', ['install', '--no-audit', '--no-fund'], { cwd: folder });
  return folder;
}

/** @returns what it wrote. @throws Error with that when it fails. */
function npm(folder: string, ...args: readonly string[]): string {
  const { output, status } = spawnSync('npm', args, {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  const text = output.join('');
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed (${status}):\n${text}`);
  return text;
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

it('a new project for a kind of Kubernetes checks and tests itself', async () => {
  const folder = await create('labels', '--kind', 'v1/Service');
  npm(folder, 'run', 'check');
  expect(npm(folder, 'test')).toMatch(/Tests +2 passed/);
  expect(npm(folder, 'run', 'test:cluster')).toMatch(/Tests +1 passed/);
});

it('a wrong answer gets one sentence, and nothing is written', async () => {
  const create = unpackInto(join(workspace, 'npx'), 'create-levelhook', packed.create);
  mkdirSync(join(workspace, 'full'), { recursive: true });
  writeFileSync(join(workspace, 'full/mine.txt'), '');
  for (const [args, sentence] of [
    [[join(workspace, 'full')], /^create-levelhook: \S+full is not empty \(mine\.txt\): name another folder\.\n$/],
    [
      [join(workspace, 'new'), '--kind', 'Site'],
      /^create-levelhook: "Site" is no kind: write it as example\.com\/v1\/Site, /,
    ],
    [[join(workspace, 'new'), '--nonsense'], /^create-levelhook: Unknown option '--nonsense'/],
    [[join(workspace, 'new'), '--package-manager', 'yarn'], /^create-levelhook: "yarn" is no package manager /],
  ] as const) {
    const failed = run(process.execPath, [join(create, 'create-levelhook.js'), ...args]);
    await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(sentence) as string });
  }
  expect(existsSync(join(workspace, 'new'))).toBe(false);
});
