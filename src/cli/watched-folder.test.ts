import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { watchFolder } from './watched-folder.ts';

let folder: string;
let stop: AbortController;
let changes: number;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'levelhook-watched-'));
  mkdirSync(join(folder, 'src/deep'), { recursive: true });
  for (const left of ['node_modules/x', '.levelhook', 'dist']) mkdirSync(join(folder, left), { recursive: true });
  stop = new AbortController();
  changes = 0;
  watchFolder(folder, () => (changes += 1), stop.signal);
});

afterEach(() => {
  stop.abort();
  rmSync(folder, { recursive: true });
});

const change = (file: string): void => writeFileSync(join(folder, file), `${Math.random()}`);
/** Acts, and waits until the folder reports a change. */
async function told(act: () => void): Promise<void> {
  const before = changes;
  act();
  await vi.waitFor(() => expect(changes).toBeGreaterThan(before), { timeout: 60_000 });
}

it('tells of a change at any depth, and of files in a new folder', async () => {
  await told(() => change('src/deep/a.ts'));
  await told(() => mkdirSync(join(folder, 'src/new')));
  await told(() => change('src/new/c.ts'));
});

it('leaves out what is installed, built, kept or hidden, and ends with the signal', async () => {
  for (const file of ['node_modules/x/a.js', '.levelhook/data', 'dist/a.js', 'src/.a.ts.swp', 'src/a.ts~'])
    change(file);
  await sleep(300);
  expect(changes).toBe(0);
  await told(() => change('src/a.ts'));
  stop.abort();
  const before = changes;
  change('src/a.ts');
  await sleep(300);
  expect(changes).toBe(before);
});
