import { vi } from 'vitest';
import { main } from '../../src/cli/main.ts';

/** The exit code and the output of a command. */
export interface Ended {
  readonly code: typeof process.exitCode;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line in this process. */
export async function levelhook(...args: string[]): Promise<Ended> {
  const before = process.exitCode;
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      written[name] += String(text);
      return true;
    }),
  );
  try {
    process.exitCode = undefined;
    await main(['node', 'levelhook', ...args]);
    return { code: process.exitCode, ...written };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
