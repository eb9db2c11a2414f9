import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { endedError, ManagedProcess, type ProcessSpec } from './managed-process.ts';
import { startTimeOf } from './process-identity.ts';
import { ProcessRecord, stopLeftovers } from './process-record.ts';

let directory: string;
let started: ManagedProcess[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'levelhook-process-'));
  started = [];
});

afterEach(async () => {
  for (const process of started) await process.stop();
  await rm(directory, { recursive: true });
});

function shell(script: string): ProcessSpec {
  return { name: 'part', command: '/bin/sh', args: ['-c', script], directory, logFile: join(directory, 'part.log') };
}

async function start(spec: ProcessSpec): Promise<ManagedProcess> {
  const process = await ManagedProcess.start(spec, new ProcessRecord(directory));
  started.push(process);
  return process;
}

async function recorded(): Promise<unknown> {
  return JSON.parse(await readFile(join(directory, 'processes.json'), 'utf8'));
}

describe('ManagedProcess', () => {
  it('is in the record while it runs and not after', async () => {
    const process = await start(shell('exec sleep 60'));
    expect(await recorded()).toEqual({ part: { pid: process.pid, startTime: startTimeOf(process.pid) } });
    await process.stop();
    expect(process.alive).toBe(false);
    expect(startTimeOf(process.pid)).toBeUndefined();
    expect(await recorded()).toEqual({});
  });

  it('has a process group of its own, out of reach of Ctrl-C', async () => {
    const { pid } = await start(shell('exec sleep 60'));
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    expect(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]).toBe(String(pid));
  });

  it('is stopped even when it was put to sleep', async () => {
    const process = await start(shell('exec sleep 60'));
    await process.kill('SIGSTOP');
    await process.stop();
    expect(process.alive).toBe(false);
  });

  it('is killed when it ignores SIGTERM', async () => {
    const process = await start(shell('trap "" TERM; echo ready; while true; do sleep 0.1; done'));
    while (!(await readFile(join(directory, 'part.log'), 'utf8')).includes('ready'));
    await process.stop(200);
    expect(process.alive).toBe(false);
  });

  it('that ended by itself is reported with the last line of its log', async () => {
    const spec = shell('echo one; echo "two is the reason" >&2; exit 1');
    await (
      await start(spec)
    ).ended;
    expect(endedError(spec).message).toBe(`part ended; its log ${spec.logFile} ends: two is the reason`);
  });

  it('that cannot be executed is a mistake of the user', async () => {
    await expect(start({ ...shell(''), command: join(directory, 'absent') })).rejects.toThrow(
      /^part: .*absent cannot be executed/,
    );
  });
});

describe('stopLeftovers', () => {
  it('stops what is recorded', async () => {
    const process = await start(shell('exec sleep 60'));
    expect(await stopLeftovers(directory)).toEqual(['part']);
    await process.ended;
  });

  it('leaves a process alone whose start time is another one', async () => {
    const { pid } = await start(shell('exec sleep 60'));
    new ProcessRecord(directory).set('part', { pid, startTime: '1' });
    expect(await stopLeftovers(directory)).toEqual([]);
    expect(startTimeOf(pid)).toBeDefined();
  });

  it('finds nothing where nothing was started', async () => {
    expect(await stopLeftovers(join(directory, 'absent'))).toEqual([]);
  });
});
