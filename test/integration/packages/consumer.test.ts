import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { packPackages, type PackedPackages } from '../../../infra/checks/packed-packages.ts';
import { repositoryRoot, runNode } from '../../../infra/checks/temp-repository.ts';
import { generateSecret, importSecret, sign, type Trigger } from '../../../src/contract/index.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { Started } from '../../harness/started.ts';

const MODULES = join(repositoryRoot, 'node_modules');
const manifestSchema = z.object({
  engines: z.object({ node: z.string() }),
  exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string() })])),
  peerDependencies: z.record(z.string(), z.string()).default({}),
});

const started = new Started();
let workspace: string;
let packed: PackedPackages;

beforeAll(() => {
  workspace = mkdtempSync(join(tmpdir(), 'levelhook-consumers-'));
  packed = packPackages(workspace);
}, 300_000);

afterAll(async () => {
  await started.stop();
  rmSync(workspace, { recursive: true, force: true });
});

/** A project of a user, with what npm installs for these: registry names, or the package itself. */
async function project(name: string, ...packages: string[]): Promise<string> {
  const folder = join(workspace, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', private: true }));
  const options = ['--ignore-scripts', '--no-audit', '--no-fund'];
  await promisify(execFile)('npm', ['install', ...options, ...packages], { cwd: folder });
  return folder;
}

const manifestOf = (folder: string, name: string) =>
  manifestSchema.parse(JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')));

it.each([
  ['levelhook', 'levelhook', ['@types/node']],
  ['function', '@levelhook/function', []],
] as const)(
  'each entry of the package %s type-checks in a new project with its dependencies, declarations included',
  async (key, name, more) => {
    const folder = await project(`types-${key}`, packed[key], ...more);
    const entries = Object.entries(manifestOf(folder, name).exports).filter(([, target]) => typeof target !== 'string');
    const lines = entries.map(
      ([path], at) => `import * as entry${at} from '${name}${path.slice(1)}';\nvoid entry${at};`,
    );
    writeFileSync(join(folder, 'index.ts'), `${lines.join('\n')}\n`);
    const types = more.length > 0 ? ['node'] : [];
    const own = { target: 'es2024', lib: ['es2024', 'dom'], types, strict: true, noEmit: true, skipLibCheck: false };
    for (const [module, moduleResolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ]) {
      const compilerOptions = { ...own, module, moduleResolution };
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['index.ts'] }));
      const { output } = runNode(folder, [join(MODULES, 'typescript/bin/tsc'), '--pretty', 'false']);
      expect(output, moduleResolution).toBe('');
    }
  },
  300_000,
);

/** Answers what the cache has of `value`, and how it takes the want of packages that it does not need otherwise. */
const FUNCTION = `
import { controller, resource, TerminalError } from '@levelhook/function';
import { serveController } from '@levelhook/function/node';

const things = resource('example.com/v1', 'Thing');
void serveController(
  controller({ name: 'thing', for: things }).reconcile(async (request, { cache, api }) => {
    const { spec } = await cache.get(things, request);
    const failed = await api.get(things, request).catch((error) => error.message);
    throw new TerminalError(JSON.stringify({ size: String(spec.size), failed }));
  }),
);
`;

it('a plain bundle of serveController needs no optional package that it does not use, on the oldest Node', async () => {
  const { dependencies } = z
    .object({ dependencies: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')));
  const needed = ['@hono/node-server', 'undici'].map((name) => `${name}@${dependencies[name]}`);
  const folder = await project('bundle', packed.function, ...needed);
  writeFileSync(join(folder, 'function.js'), FUNCTION);
  const options = ['--bundle', '--platform=node', '--log-level=warning', '--outfile=bundle.cjs'];
  const esbuild = join(MODULES, 'esbuild/bin/esbuild');
  expect(execFileSync(esbuild, ['function.js', ...options], { cwd: folder, encoding: 'utf8' })).toBe('');
  // Nothing is there but the bundle.
  const alone = join(workspace, 'alone');
  mkdirSync(alone);
  writeFileSync(join(alone, 'bundle.cjs'), readFileSync(join(folder, 'bundle.cjs')));
  writeFileSync(join(alone, 'kubeconfig'), 'apiVersion: v1\nkind: Config\n');

  const [, oldest = ''] = />=(.+)/.exec(manifestOf(folder, '@levelhook/function').engines.node) ?? [];
  const asked = ['--yes', `node@${oldest}`, '--print', 'process.execPath'];
  const { stdout } = await promisify(execFile)('npx', asked, { cwd: folder });
  const thing = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"a","name":"b"},"spec":{"size":9007199254740993}}`;
  const cache = await started.open(new LoopbackServer(createServer((_, response) => void response.end(thing))));
  const secret = generateSecret();
  const environment = { PORT: '0', LEVELHOOK_SIGNING_SECRETS: secret, KUBECONFIG: join(alone, 'kubeconfig') };
  for (const node of [stdout.trim(), process.execPath]) {
    const fn = spawn(node, ['bundle.cjs'], { cwd: alone, env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(fn, 'exit');
    started.add(async () => {
      fn.kill();
      await ended;
    });
    const [line] = (await once(createInterface(fn.stdout), 'line')) as [string];
    const { url } = z.object({ url: z.string() }).parse(JSON.parse(line));
    const trigger: Trigger = {
      version: 'v1',
      controller: 'thing',
      deadline: new Date(Date.now() + 60_000).toISOString(),
      remainingSeconds: 60,
      cache: {
        views: { 'example.com/v1/Thing': [{ prefix: 'p' }] },
        url: `${cache.url}/cache`,
        token: 't',
      },
      requests: [{ namespace: 'a', name: 'b', attempt: 1, run: 1, reasons: [] }],
    };
    const body = JSON.stringify(trigger);
    const signed = await sign([await importSecret(secret)], { id: 'm', nowMs: Date.now(), body });
    const answer = await fetch(url, { method: 'POST', headers: { ...signed }, body });
    const text = await answer.text();
    expect(text, node).toContain('9007199254740993');
    expect(text).toContain('The package yaml is missing: install it (npm install yaml).');
  }
}, 300_000);
