import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { describedSettings } from '../../src/ground/config/config.ts';
import { repositoryRoot } from './temp-repository.ts';

const settings = describedSettings();
const read = (path: string): string => readFileSync(join(repositoryRoot, path), 'utf8');

/** As prettier lays it out. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  const [head = '', ...body] = rows.map((row) => line(row.map((cell, column) => cell.padEnd(widths[column] ?? 0))));
  return head + line(widths.map((width) => '-'.repeat(width))) + body.join('');
}

it('the documentation lists the settings of the gateway (UPDATE_SETTINGS=1 writes the table)', () => {
  const path = 'infra/docs/settings.md';
  const rows = settings.map((each) => [`\`${each.variable}\``, each.default, each.meaning]);
  const wanted = table([['Variable', 'Default', 'Meaning'], ...rows]);
  const found = /(?:^\|.*\n)+/m;
  if (process.env['UPDATE_SETTINGS'] === '1') {
    writeFileSync(
      join(repositoryRoot, path),
      read(path).replace(found, () => wanted),
    );
  }
  expect(found.exec(read(path))?.[0]).toBe(wanted);
});

it('of src only the room `config` names a variable of the gateway', () => {
  const variables = settings.map(({ variable }) => variable).filter((variable) => variable.startsWith('LEVELHOOK_'));
  const named = (path: string): string[] => variables.filter((variable) => read(path).includes(variable));
  // A function has settings of its own, in an environment of its own; it shares the secrets with the gateway.
  const shared = ['environment', 'node/serve-controller', 'platforms/cloudflare-workers'].map(
    (file) => `src/function/${file}.ts: LEVELHOOK_SIGNING_SECRETS`,
  );
  const others = globSync('src/**/*.{ts,md}', { cwd: repositoryRoot }).filter(
    (path) => !path.startsWith('src/ground/config/') && !path.endsWith('.test.ts'),
  );
  const groups = globSync('src/ground/config/settings/*-settings.ts', { cwd: repositoryRoot });
  expect(groups.flatMap(named).toSorted()).toEqual(variables.toSorted());
  expect(others.length).toBeGreaterThan(300);
  const found = others.flatMap((path) => named(path).map((variable) => `${path}: ${variable}`));
  expect(found.toSorted()).toEqual(shared);
});
