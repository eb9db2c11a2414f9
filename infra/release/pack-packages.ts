/** Builds and packs the packages into an empty folder, the only argument: `npm publish` takes their files. */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { packPackages } from '../checks/packed-packages.ts';

const [folder = 'packages'] = process.argv.slice(2);
const workspace = mkdtempSync(join(tmpdir(), 'levelhook-pack-'));
try {
  const packed = packPackages(workspace, process.cwd());
  mkdirSync(folder, { recursive: true });
  for (const file of Object.values(packed) as string[]) cpSync(file, join(folder, basename(file)));
} finally {
  rmSync(workspace, { recursive: true });
}
