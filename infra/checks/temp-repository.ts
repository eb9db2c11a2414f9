import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

export const repositoryRoot = resolve(import.meta.dirname, '../..');

/** Outcome of a command: what it printed on both channels, in order, and how it ended. */
export interface Finished {
  output: string;
  exitCode: number | null;
}

/** Runs Node (this one) with the arguments, and no input. */
export function runNode(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Finished {
  const folder = mkdtempSync(join(tmpdir(), 'levelhook-output-'));
  try {
    // One file for both channels: two pipes would lose the order between them.
    const file = openSync(join(folder, 'output'), 'a+');
    const { status } = spawnSync(process.execPath, args, {
      cwd,
      env: { ...process.env, NO_COLOR: '1', ...env },
      stdio: ['ignore', file, file],
    });
    closeSync(file);
    return { output: readFileSync(join(folder, 'output'), 'utf8'), exitCode: status };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A throw-away repository with the checks of this one and the given sources, for testing the checks themselves. */
export class TempRepository implements Disposable {
  readonly root: string;

  constructor(files: Readonly<Record<string, string>>) {
    this.root = mkdtempSync(join(tmpdir(), 'levelhook-checks-'));
    for (const name of ['package.json', 'tsconfig.json', 'infra/checks']) {
      // Without the tests of the checks, which would copy and run themselves for ever.
      const filter = (path: string): boolean => !path.endsWith('.test.ts');
      cpSync(join(repositoryRoot, name), join(this.root, name), { recursive: true, filter });
    }
    symlinkSync(join(repositoryRoot, 'node_modules'), join(this.root, 'node_modules'));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true });
      writeFileSync(join(this.root, path), text);
    }
  }

  /** Runs a file of the checks or of an installed package, given by its path in the repository. */
  run(...args: readonly string[]): Finished {
    return runNode(this.root, args);
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
