import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { generateSecret } from '../../src/contract/index.ts';
import { accountFiles } from './account-files.ts';
import type { Setting } from './levelhook.ts';
import { TestProcess } from './process.ts';
import type { Started } from './started.ts';

export const PYTHON_EXAMPLE = 'functions/examples/10-python/function.py';
export const GO_EXAMPLE = fileURLToPath(new URL('../../functions/examples/11-go/', import.meta.url));

/** Standard library only: nothing is downloaded. */
export const goInExample = (...args: string[]) =>
  promisify(execFile)('go', args, { cwd: GO_EXAMPLE, env: { ...process.env, GOPROXY: 'off', GOFLAGS: '-mod=mod' } });

/** Starts the example in Python, which writes as the user of the setting's kubeconfig. @returns its URL. */
export async function startPythonExample(started: Started, setting: Setting): Promise<string> {
  const env = await environment(setting, await started.directory());
  return listening(started, new TestProcess(PYTHON_EXAMPLE, [], env, ['python3']));
}

/** @returns the program. */
export async function buildGoExample(started: Started): Promise<string> {
  const program = join(await started.directory(), 'pod-count');
  await goInExample('build', '-o', program, '.');
  return program;
}

/** Starts the example in Go, which writes as the user of the setting's kubeconfig. @returns its URL. */
export async function startGoExample(started: Started, setting: Setting, program: string): Promise<string> {
  const env = await environment(setting, await started.directory());
  return listening(started, new TestProcess('.', [], env, [program]));
}

/** A second secret comes first, as while one is rotated. */
async function environment({ kubeconfig, secret }: Setting, directory: string): Promise<Record<string, string>> {
  const account = await accountFiles(kubeconfig, directory);
  return { ...account, LEVELHOOK_SIGNING_SECRETS: `${generateSecret()} ${secret}`, PORT: '0' };
}

async function listening(started: Started, process: TestProcess): Promise<string> {
  const line = await started.keep({ process }).process.line(({ msg }) => msg === 'listening');
  return String(line['url']);
}
