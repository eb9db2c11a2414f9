import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tar from 'tar';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packPackages, type PackedPackages, unpackInto } from '../../../infra/checks/packed-packages.ts';
import { npmTools } from '../../harness/npm-tools.ts';

interface Publint {
  publint(options: { pack: { tarball: ArrayBuffer }; strict: true }): Promise<{ messages: object[] }>;
}

interface TypesProblem {
  readonly kind: string;
  readonly resolutionKind?: string;
}
interface TypesCheck {
  createPackageFromTarballData(data: Uint8Array): object;
  checkPackage(found: object): Promise<{ problems?: readonly TypesProblem[] }>;
}

let workspace: string;
let packed: PackedPackages;
let publint: Publint;
let types: TypesCheck;

beforeAll(async () => {
  const { resolve } = createRequire(join(await npmTools(), 'any.js'));
  publint = (await import(resolve('publint'))) as Publint;
  types = (await import(resolve('@arethetypeswrong/core'))) as TypesCheck;
  workspace = mkdtempSync(join(tmpdir(), 'levelhook-packed-'));
  packed = packPackages(workspace);
}, 600_000);

afterAll(() => rmSync(workspace, { recursive: true, force: true }));

async function findings(tarball: string): Promise<object[]> {
  const data = readFileSync(tarball);
  const buffer = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  const { messages } = await publint.publint({ pack: { tarball: buffer }, strict: true });
  const { problems = [] } = await types.checkPackage(types.createPackageFromTarballData(new Uint8Array(data)));
  // The packages are ES modules, for Node 24: CommonJS and the resolution of Node 10 are not served.
  const ours = problems.filter(({ resolutionKind = '' }) => !['node10', 'node16-cjs'].includes(resolutionKind));
  return [...messages, ...ours];
}

describe.each(['levelhook', 'function'] as const)('the package %s', (name) => {
  it('passes publint and arethetypeswrong', async () => {
    expect(await findings(packed[name])).toEqual([]);
  });

  it('does not pass them without a declaration and a module that it exports', async () => {
    const consumer = join(workspace, `broken-${name}`);
    const folder = unpackInto(consumer, 'package', packed[name]);
    const prefix = name === 'levelhook' ? 'dist/src/' : '';
    rmSync(join(folder, `${prefix}function/callback.js`));
    rmSync(join(folder, `${prefix}function/index.d.ts`));
    const broken = join(workspace, `broken-${name}.tgz`);
    tar.create({ file: broken, cwd: join(consumer, 'node_modules'), gzip: true, sync: true }, ['package']);
    rmSync(join(consumer, 'node_modules'), { recursive: true });
    const found = JSON.stringify(await findings(broken));
    expect(found).toContain('FILE_DOES_NOT_EXIST');
    expect(found).toContain('UntypedResolution');
  });
});
