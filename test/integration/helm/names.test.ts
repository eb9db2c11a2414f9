import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { helmFolder } from '../../harness/helm.ts';
import { Started } from '../../harness/started.ts';
import { nameFor, ODD_NAMES, ODD_TEXTS, PLAIN, withName } from './odd-names.ts';

const CHARTS = resolve(import.meta.dirname, '../../../infra/helm');
const run = promisify(execFile);

const started = new Started();
let helm: string;
let folder: string;

beforeAll(async () => {
  helm = join(await helmFolder((line) => process.stderr.write(`${line}\n`)), 'helm');
  folder = await started.directory();
}, 600_000);
afterAll(() => started.stop());

/** @param name of the release and of its namespace, where they may have it. */
async function render(chart: string, values: object, name: string) {
  const file = join(folder, 'values.yaml');
  await writeFile(file, JSON.stringify(values));
  const place = nameFor('release', name);
  const args = ['template', place, chart, '--namespace', place, '--values', file];
  const { stdout } = await run(helm, args, { cwd: CHARTS, env: { ...process.env, HOME: folder }, maxBuffer: 1e8 });
  return stdout;
}

/** The objects by kind and place, as a reader of this version of YAML has them. */
function objectsIn(text: string, version: '1.1' | '1.2'): unknown[] {
  const documents = parseAllDocuments(text, { version });
  return [...documents].map((each) => (each as { toJS(): unknown }).toJS()).filter((each) => each !== null);
}

const SETTINGS = [
  ...globSync('levelhook/ci/*.yaml', { cwd: CHARTS }),
  ...globSync('levelhook-functions/ci/*.yaml', { cwd: CHARTS }),
].map((path) => ({ path, chart: path.split('/')[0] ?? '', name: `${path.split('/')[0]} with ${basename(path)}` }));

describe.each(SETTINGS)('every name is text in $name', ({ path, chart }) => {
  const values = parse(readFileSync(join(CHARTS, path), 'utf8')) as object;
  let plain: unknown[];

  beforeAll(async () => {
    plain = objectsIn(await render(chart, withName(chart, values, PLAIN), PLAIN), '1.2');
    expect(plain.length).toBeGreaterThan(3);
  });

  it.each([...ODD_NAMES, ...ODD_TEXTS])('that is %s', async (odd) => {
    const text = await render(chart, withName(chart, values, odd), odd);
    for (const version of ['1.1', '1.2'] as const) compare(objectsIn(text, version), plain, version);
    expect(text).toMatch(new RegExp(`image: "[^"]+(:${nameFor('tag', odd)}|@sha256:0+)"`));
  });
});

it('a value of zero is a zero, and a large one a whole number', async () => {
  const scaled = (scale: object): object => ({
    functions: { greeting: { image: 'x', scale, spec: { for: { apiVersion: 'v1', kind: 'ConfigMap' } } } },
    gateway: { url: 'http://levelhook.levelhook.svc:8787' },
  });
  const scalerOf = async (scale: object): Promise<unknown> => {
    const objects = objectsIn(await render('levelhook-functions', scaled(scale), PLAIN), '1.2') as { kind: string }[];
    return objects.find(({ kind }) => kind === 'ScaledObject');
  };
  const zero = await scalerOf({ min: 0, cooldownSeconds: 0 });
  expect(zero).toMatchObject({
    spec: { minReplicaCount: 0, cooldownPeriod: 0, maxReplicaCount: 5, pollingInterval: 5 },
  });
  const large = await scalerOf({ cooldownSeconds: 2_000_000, keysPerInstance: 3_000_000 });
  expect(large).toMatchObject({ spec: { cooldownPeriod: 2_000_000 } });
  expect(JSON.stringify(large)).toContain('"3000000"');
});

/** The same objects: texts at the same places, whatever they say, and the same numbers and booleans. */
function compare(found: readonly unknown[], plain: readonly unknown[], version: string): void {
  // Helm orders them by name.
  const sorted = (objects: readonly unknown[]): string[] =>
    objects.map((each) => JSON.stringify(textsIn(each), undefined, 1)).toSorted();
  expect(sorted(found), version).toEqual(sorted(plain));
}

/** What stands where, with each text as `text`. A key that is no text of YAML is not what Kubernetes reads either. */
function textsIn(value: unknown): unknown {
  if (typeof value === 'string') return 'text';
  if (Array.isArray(value)) return value.map(textsIn);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return 'a date';
  const entries = Object.entries(value).map(([key, each]) => [key, textsIn(each)] as const);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
