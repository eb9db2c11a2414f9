import { spawn } from 'node:child_process';
import { expect, it } from 'vitest';
import { type OutputLine, OwnedProcess } from './owned-process.ts';

const shell = (script: string) => spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'pipe'] });

it('an owned process passes on what it writes, as JSON or as text, and how it ended', async () => {
  const lines: OutputLine[] = [];
  const script = `echo '{"a":1}'; echo '{no'; echo plain; echo last >&2; exit 3`;
  const owned = new OwnedProcess(shell(script), { end: 'close', onLine: (line) => lines.push(line) });
  expect(await owned.ended).toBe(3);
  expect(lines).toHaveLength(4);
  expect(lines).toEqual(
    expect.arrayContaining([{ json: { a: 1 } }, { text: '{no' }, { text: 'plain' }, { text: 'last' }]),
  );
});

it('an owned process is stopped even when it was put to sleep, and stopping it again does nothing', async () => {
  const owned = new OwnedProcess(shell('exec sleep 60'), { end: 'exit' });
  expect(owned.alive).toBe(true);
  owned.send('SIGSTOP');
  await owned.stop(10_000);
  expect(await owned.ended).toBe('SIGTERM');
  expect(owned.alive).toBe(false);
  await owned.stop(10_000);
});

it('an owned process is killed when it does not end in time', async () => {
  const ready = Promise.withResolvers<void>();
  const child = shell('trap "" TERM; echo ready; while true; do sleep 0.1; done');
  const owned = new OwnedProcess(child, { end: 'exit', onLine: () => ready.resolve() });
  await ready.promise;
  await owned.stop(100);
  expect(await owned.ended).toBe('SIGKILL');
});
