import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { queueApi } from '../gateway/http/server/queue-api.ts';
import type { WorkQueue } from '../gateway/controller/workqueue/work-queue.ts';
import { levelhook } from '../../test/harness/command-line.ts';

const folder = mkdtempSync(join(tmpdir(), 'levelhook-main-'));
const output = join(folder, 'profile');
let answer: readonly [status: number, type: string, body: string];
let asked: string[] = [];
const server = createServer((request, response) => {
  asked.push(`${request.method} ${request.url}`);
  const [status, type, body] = answer;
  response.writeHead(status, { 'content-type': type }).end(body);
});
let gateway: string;

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  gateway = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  asked = [];
  rmSync(output, { force: true });
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

/** Every command that asks a gateway. */
const COMMANDS: readonly (readonly string[])[] = [
  ['get', 'controllers'],
  ['get', 'controllers', '--output', 'json'],
  ['get', 'controllers', '--watch'],
  ['get', 'keys', 'web'],
  ['get', 'keys', 'web', '--list', 'dead'],
  ['get', 'dead-letters'],
  ['get', 'dead-letters', 'web', '-o', 'yaml'],
  ['get', 'views'],
  ['get', 'functions'],
  ['trigger', 'web', 'a/x'],
  ['replay', 'web', '--all'],
  ['drop', 'web', 'a/x'],
  ['pause', 'web'],
  ['resume', 'web', '--namespace', 'a'],
  ['explain', 'web', 'a/x'],
  ['rights', 'web'],
  ['explain', 'web', 'a/x', '--output', 'json'],
  ['profile', '--out', output],
  ['profile', 'web', '--format', 'chrome', '--out', output],
];

/** The answers of servers that are not gateways. */
const ANSWERS: readonly (typeof answer)[] = [
  [200, 'text/html', '<html><h1>Welcome</h1></html>'],
  [200, 'application/json', '{}'],
  [200, 'application/json', '{"hello":1}'],
  [200, 'application/json', '[]'],
  [200, 'application/json', 'null'],
  [200, 'application/json', '{'],
  [404, 'text/html', '<html><h1>Not Found</h1></html>'],
  [200, 'text/plain', ''],
];

describe.each(COMMANDS.map((words) => [words.join(' ').replace(output, 'FILE'), words] as const))('%s', (_, words) => {
  it.each(ANSWERS)('says that a server is not a gateway which answers %i %s %j', async (...given) => {
    answer = given;
    expect(await levelhook(...words, '--gateway', gateway)).toEqual({
      code: 1,
      stdout: '',
      stderr: `levelhook: ${gateway} is not a gateway of levelhook: name yours by --gateway.\n`,
    });
    expect(asked).not.toEqual([]);
    expect(existsSync(output)).toBe(false);
  });

  it('does not print the page of a proxy that cannot reach the gateway', async () => {
    answer = [502, 'text/html', '<html><h1>Bad Gateway</h1></html>'];
    const { code, stderr } = await levelhook(...words, '--gateway', gateway);
    expect([code, stderr]).toEqual([1, `levelhook: The gateway at ${gateway} answered 502: it does not say why.\n`]);
  });

  it.each(['/levelhook', '/levelhook/', '/?a=b', '/#a', '?a', '//'])('refuses a gateway with %s', async (rest) => {
    const { code, stdout, stderr } = await levelhook(...words, '--gateway', gateway + rest);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^levelhook: [^\n]* Write it as http:\/\/127\.0\.0\.1:[0-9]+, with nothing behind/);
    expect(asked).toEqual([]);
  });
});

describe('levelhook drop', () => {
  /** A gateway whose queue has each key as a dead letter. */
  const dropped: string[] = [];
  const queue = {
    name: 'web',
    inspector: { status: async (key: string) => ({ key, deadSinceMs: 1 }) },
    drop: async (keys: readonly string[]) => dropped.push(...keys) && keys.length,
  } as unknown as WorkQueue;
  const app = new Hono().route(
    '/queues',
    queueApi({ queues: () => new Map([['web', queue]]), controller: () => undefined, clock: { now: () => 0 } }),
  );
  const listener = getRequestListener(app.fetch);
  const api = createServer((request, response) => void listener(request, response));
  beforeAll(() => once(api.listen(0, '127.0.0.1'), 'listening'));
  afterAll(() => api.close());

  it.each([
    ['1,000', 1000, 'k'],
    ['1,001', 1001, 'k'],
    ['2,500', 2500, 'k'],
    ['1,000 long', 1000, 'k'.repeat(240)],
  ])('drops %s keys', async (_, count, stem) => {
    dropped.length = 0;
    const keys = Array.from({ length: count }, (_, at) => `a/${stem}${at}`);
    const at = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
    const ended = await levelhook('drop', 'web', ...keys, '--output', 'json', '--gateway', at);
    expect(ended).toEqual({ code: undefined, stdout: `{\n  "dropped": ${count}\n}\n`, stderr: '' });
    expect(dropped).toEqual(keys);
  });
});

describe('levelhook help', () => {
  it.each([
    ['help nosuch', 'levelhook'],
    ['nosuch --help', 'levelhook'],
    ['nosuch -h', 'levelhook'],
    ['get help nosuch', 'levelhook get'],
    ['help get nosuch', 'levelhook get'],
    ['get nosuch --help', 'levelhook get'],
  ])('%s is refused in one sentence', async (words, command) => {
    expect(await levelhook(...words.split(' '))).toEqual({
      code: 1,
      stdout: '',
      stderr: `levelhook: unknown command 'nosuch'; ${command} --help shows the usage.\n`,
    });
  });

  it.each([
    ['--help', 'levelhook'],
    ['help', 'levelhook'],
    ['help start', 'levelhook start'],
    ['start --help', 'levelhook start'],
    ['help get', 'levelhook get'],
    ['get --help', 'levelhook get'],
    ['get help keys', 'levelhook get keys'],
    ['get keys --help', 'levelhook get keys'],
  ])('%s prints the help of %s', async (words, command) => {
    const { code, stdout, stderr } = await levelhook(...words.split(' '));
    expect([code ?? 0, stderr]).toEqual([0, '']);
    expect(stdout.startsWith(`Usage: ${command} [`)).toBe(true);
  });
});

it('levelhook complete writes a script for the shell, which asks it for words', async () => {
  const words: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((text: unknown) => void words.push(String(text)));
  try {
    expect((await levelhook('complete', 'zsh')).code ?? 0).toBe(0);
    expect(words.join('\n')).toContain('#compdef levelhook');
    words.length = 0;
    await levelhook('complete', '--', 'get', 'k');
    expect(words.join('\n')).toMatch(/^keys\t/m);
    words.length = 0;
    await levelhook('complete', '--', 'explain', '--ou');
    expect(words.join('\n')).toMatch(/^--output\t/m);
  } finally {
    log.mockRestore();
  }
});
