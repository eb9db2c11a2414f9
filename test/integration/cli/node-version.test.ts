import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

const SCRIPT = resolve(import.meta.dirname, '../../../src/cli/levelhook.js');
const SENTENCE =
  /^levelhook needs Node 24 or later and this is 20\.[0-9.]+: run it through its npm scripts, which bring their own Node\.\n$/;

let folder: string;
let linked: string;
/** A Node 20: the machine's, or ours made to say that it is one. */
let node: readonly [string, ...string[]];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'levelhook-node-'));
  // As npm does in node_modules/.bin.
  linked = join(folder, 'levelhook');
  symlinkSync(SCRIPT, linked);
  const pretence = join(folder, 'pretend.cjs');
  writeFileSync(pretence, "Object.defineProperty(process.versions, 'node', { value: '20.19.0' });\n");
  node = isNode20('/usr/bin/node') ? ['/usr/bin/node'] : [process.execPath, '--require', pretence];
});

afterAll(() => rmSync(folder, { recursive: true }));

function isNode20(path: string): boolean {
  return existsSync(path) && spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout.startsWith('v20.');
}

it.each([
  ['directly', () => SCRIPT],
  ['through the link that npm makes', () => linked],
])('a Node that is too old gets one sentence, started %s', (_, script) => {
  const [command, ...before] = node;
  const { status, stdout, stderr } = spawnSync(command, [...before, script(), 'start'], { encoding: 'utf8' });
  expect(stderr).toMatch(SENTENCE);
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
});

it('the right Node runs it through the link that npm makes', () => {
  const args = ['--conditions=levelhook-source', linked, '--version'];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string });
});
