import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ReloadedFunction } from './reloaded-function.ts';

let folder: string;
let texts: string[];
let fn: ReloadedFunction;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'levelhook-reloaded-'));
  texts = [];
  const command = [process.execPath, join(folder, 'program.js')];
  fn = new ReloadedFunction({
    program: { name: 'program', folder, command },
    env: process.env,
    onLine: (line) => void ('text' in line && texts.push(line.text)),
    say: () => {},
  });
});

afterEach(async () => {
  await fn.stop();
  rmSync(folder, { recursive: true });
});

const program = (text: string): void => writeFileSync(join(folder, 'program.js'), text);

/** A function that never answers, and a line with the id of its process. */
const SILENT = `
const server = require('node:http').createServer(() => console.log('asked ' + process.pid));
server.listen(0, '127.0.0.1', () => {
  const url = 'http://127.0.0.1:' + server.address().port;
  console.log(JSON.stringify({ msg: 'listening', url }));
  console.log('pid ' + process.pid);
});
`;

const pids = (): number[] => texts.filter((text) => text.startsWith('pid ')).map((text) => Number(text.slice(4)));
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it('ends a version that still starts when it is stopped', async () => {
  program('setInterval(() => {}, 1000);');
  const loaded = fn.reload();
  const ended = expect(loaded).rejects.toThrow(/function program ended/);
  await fn.stop();
  await ended;
  await expect(fn.reload()).rejects.toThrow(/was stopped/);
});

it('ends a version that still answers when it is stopped', async () => {
  program(SILENT);
  const [url = ''] = await fn.reload();
  const asked = expect(fetch(url)).rejects.toThrow();
  await expect.poll(() => texts.join()).toContain('asked');
  await fn.reload();
  await expect.poll(pids).toHaveLength(2);
  expect(pids().map(isAlive)).toEqual([true, true]);
  await fn.stop();
  expect(pids().map(isAlive)).toEqual([false, false]);
  await asked;
});
