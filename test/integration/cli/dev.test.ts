import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { UserCommand } from '../../harness/user-command.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const LABELS = { greet: 'true' };

/** A folder of a user's own, which has levelhook installed. */
let project: string;
let command: UserCommand;
let cluster: Cluster;

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'levelhook-project-'));
  mkdirSync(join(project, 'src'));
  mkdirSync(join(project, 'node_modules'));
  symlinkSync(ROOT, join(project, 'node_modules', 'levelhook'));
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
  for (const file of ['greeting.ts', 'node.ts']) write(file, read(join(ROOT, 'functions/examples/01-minimal', file)));
  edit('const data = {', "log.info({ greets: key.name }, 'greeting');\n    const data = {");
  edit('{ cache, api }', '{ cache, api, log }');
});

afterAll(() => rmSync(project, { recursive: true }));

afterEach(async () => {
  await cluster?.close();
  await command.clean();
});

const read = (file: string): string => readFileSync(file, 'utf8');
const write = (file: string, text: string): void => writeFileSync(join(project, 'src', file), text);

function edit(from: string, to: string): void {
  const text = read(join(project, 'src/greeting.ts'));
  expect(text).toContain(from);
  write('greeting.ts', text.replace(from, to));
}

function run(...args: readonly string[]): void {
  const words = ['--conditions=levelhook-source', resolve('src/cli/levelhook.js'), 'dev', '--port', '0', ...args];
  command = new UserCommand(process.execPath, words, { cwd: project, keys: true });
}

async function dev(...args: readonly string[]): Promise<void> {
  run(...args);
  await command.line(/^levelhook ready$/);
  const [, kubeconfig = ''] = /^ {2}kubeconfig +(\S+)$/.exec(await command.line(/^ {2}kubeconfig /)) ?? [];
  expect(kubeconfig).toBe(join(project, '.levelhook/control-plane/kubeconfig'));
  cluster = await Cluster.connect(kubeconfig);
}

async function greet(name: string): Promise<string> {
  await cluster.create(configMaps, { metadata: { namespace: 'default', name, labels: LABELS }, data: { name } });
  return eventually(async () => {
    const found = await greetingOf(name);
    expect(found).toBeDefined();
    return found?.data?.['text'] ?? '';
  });
}

async function greetingOf(name: string): Promise<(KubernetesObject & { data?: Record<string, string> }) | undefined> {
  return cluster.get(configMaps, { namespace: 'default', name: `${name}-greeting` });
}

const said = (pattern: RegExp): Promise<string> =>
  eventually(async () => {
    const line = command.stderr.findLast((each) => pattern.test(each));
    expect(line, command.output).toBeDefined();
    return line ?? '';
  });

async function quit(): Promise<void> {
  await cluster.close();
  command.press('q');
  expect(await command.exited, command.output).toBe(0);
  expect(command.running()).toEqual([]);
  expect(command.leftFiles()).toEqual([]);
}

it('levelhook dev runs the function of a project, and a change of its files, and keeps the last version that works', async () => {
  await dev();
  expect(await greet('ann')).toBe('Hello, ann!');
  await command.line(/ greeting +default\/ann .* done, 1 write$/);
  // Each line is a write of its own.
  await eventually(async () => {
    const trigger = command.stdout.findIndex((line) => / greeting +default\/ann .* done, 1 write$/.test(line));
    expect(command.stdout.slice(trigger + 1, trigger + 3)).toEqual([
      '    wrote v1/ConfigMap default/ann-greeting',
      '    info greeting greets=ann-greeting',
    ]);
  });

  edit('Hello', 'Good day');
  await said(/^src\/node\.ts started again$/);
  expect(await greet('bob')).toBe('Good day, bob!');

  edit('const data =', 'const data = =');
  await said(/The version before it goes on\.$/);
  expect(command.stderr.join('\n')).toContain('const data = =');
  expect(await greet('carl')).toBe('Good day, carl!');

  edit('const data = =', 'const data =');
  edit('owns: [ConfigMap]', 'owns: [ConfigMap], concurrency: 2');
  await said(/^the declaration has changed: the gateway starts again$/);
  expect(await greet('dora')).toBe('Good day, dora!');

  // The controller goes on as it was declared before.
  edit('concurrency: 2', 'concurrency: -2');
  await said(/^function src\/node\.ts does not describe itself \(.*concurrency/);
  expect(await greet('eve')).toBe('Good day, eve!');
  edit('concurrency: -2', 'concurrency: 2');
  expect(command.stderr.filter((line) => line.startsWith('the declaration has changed'))).toHaveLength(1);

  command.press('r');
  // With the ConfigMaps that Kubernetes makes.
  await said(/^greeting: \d+ keys queued$/);
  await eventually(async () => expect((await greetingOf('ann'))?.data).toEqual({ text: 'Good day, ann!' }));
  command.press('p');
  await said(/^greeting: paused$/);
  command.press('p');
  await said(/^greeting: resumed$/);
  await quit();

  // The cluster and the queues are those of the last start.
  await dev();
  expect((await greetingOf('carl'))?.data).toEqual({ text: 'Good day, carl!' });
  expect(await greet('emil')).toBe('Good day, emil!');
  await quit();

  await dev('--fresh', 'src/node.ts');
  expect(await greetingOf('emil')).toBeUndefined();
  expect(await greet('emil')).toBe('Good day, emil!');
  await quit();
});

it('levelhook dev runs a script in Python and a module in Go, and builds the latter again', async () => {
  cpSync(join(ROOT, 'functions/examples/10-python'), join(project, 'words'), { recursive: true });
  cpSync(join(ROOT, 'functions/examples/11-go'), join(project, 'pods'), { recursive: true });
  await dev('--fresh', 'words/function.py', 'pods');
  await cluster.create(configMaps, {
    metadata: { namespace: 'default', name: 'text', labels: { count: 'words' } },
    data: { a: 'to be' },
  });
  await command.line(/ word-count +default\/text .* done, 1 write$/);
  const accounts = resource('v1', 'ServiceAccount');
  await cluster.create(accounts, { metadata: { namespace: 'default', name: 'web', labels: { count: 'pods' } } });
  await command.line(/ pod-count +default\/web .* done, 1 write$/);
  const file = join(project, 'pods/main.go');
  writeFileSync(file, `${read(file)}\nfunc broken( {}\n`);
  await said(/The version before it goes on\.$/);
  expect(command.stderr.join('\n')).toMatch(/main\.go:\d+/);
  writeFileSync(file, read(file).replace('\nfunc broken( {}\n', ''));
  await said(/^pods started again$/);
  await quit();
});

it('levelhook dev waits for a function that has never worked, and refuses what is none in a sentence', async () => {
  for (const [entry, sentence] of [
    ['nothing.ts', /^levelhook: There is no file \S+nothing\.ts: name the entry of your function\.$/],
    ['package.json', /^levelhook: \S+package\.json is no module for Node/],
    ['src', /^levelhook: The folder \S+src is no Go module: name the file that serves your function\.$/],
  ] as const) {
    run(entry);
    expect(await command.exited).toBe(1);
    expect(command.stderr.at(-1)).toMatch(sentence);
    await command.clean();
  }
  edit('const data =', 'const data = =');
  run('--run', 'echo never');
  expect(await command.exited, command.output).toBe(1);
  expect(command.stderr.at(-1)).toBe('levelhook: "echo never" did not run: a function has not started.');
  expect(command.stdout).not.toContain('never');
  await command.clean();

  run('--fresh');
  await said(/^waiting for a change of its files$/);
  edit('const data = =', 'const data =');
  await command.line(/^levelhook ready$/);
  command.signal('SIGINT', 'group');
  expect(await command.exited, command.output).toBe(0);
  expect(command.running()).toEqual([]);
});

it('levelhook dev --run ends with the exit code of a command that finds the gateway and the apiserver', async () => {
  const ask = 'fetch(process.env.LEVELHOOK_GATEWAY + "/readyz").then(({ status }) => console.log("gateway", status))';
  run('--run', `node -e '${ask}' && test -s "$KUBECONFIG" && test -s "$KUBE_TOKEN_FILE" && exit 3`);
  expect(await command.exited, command.output).toBe(3);
  expect(command.stdout).toContain('gateway 200');
  expect(command.running()).toEqual([]);
  await command.clean();

  run('--run', 'echo waits; sleep 60');
  await command.line(/^waits$/);
  command.signal('SIGTERM');
  expect(await command.exited, command.output).toBe(0);
  expect(command.running()).toEqual([]);
});
