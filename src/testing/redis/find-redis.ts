import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';

import { UserError } from '../../core/errors.ts';
import type { Environment } from '../process/environment.ts';
import { findOnPath } from '../process/find-on-path.ts';

const names = ['redis-server', 'valkey-server'];
const policyFile = '/usr/sbin/policy-rc.d';

/**
 * The path of a Redis or Valkey server on PATH. If there is none, installs one with apt-get, if apt-get exists and this
 * process is root. Throws `UserError` otherwise.
 */
export async function findRedis(env: Environment, onProgress: (line: string) => void = () => {}): Promise<string> {
  const found = findOnPath(names, env['PATH']);
  if (found !== undefined) return found;

  const aptGet = findOnPath(['apt-get'], env['PATH']);
  if (aptGet !== undefined && process.getuid?.() === 0) {
    onProgress('installing redis-server with apt-get, about half a minute, once');
    await withoutStartingServices(async () => {
      await run(aptGet, ['update'], env);
      await run(aptGet, ['install', '-y', '--no-install-recommends', 'redis-server'], env);
    });
    const installed = findOnPath(names, `${env['PATH']}:/usr/bin`);
    if (installed !== undefined) return installed;
  }
  throw new UserError(
    'There is no Redis: set REDIS_URL to a running one, or install redis-server or valkey-server so that it is on PATH',
  );
}

/** Debian starts installed services unless this file forbids it. An existing file is left as it is. */
async function withoutStartingServices(install: () => Promise<void>): Promise<void> {
  const ours = await writeFile(policyFile, '#!/bin/sh\nexit 101\n', { flag: 'wx', mode: 0o755 }).then(
    () => true,
    () => false,
  );
  try {
    await install();
  } finally {
    if (ours) await rm(policyFile, { force: true });
  }
}

async function run(command: string, args: string[], env: Environment): Promise<void> {
  const child = spawn(command, args, {
    env: { ...env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    errors = (errors + chunk).slice(-2_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) {
    const last = errors.trimEnd().split('\n').at(-1);
    throw new UserError(
      `"apt-get ${args.join(' ')}" failed: ${last || `exit code ${code}`}; install redis-server yourself`,
    );
  }
}
