import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { optionFields } from './option-fields.ts';

/** More than can be taken in at a look: what belongs together is a value of its own, as `Runtime` is. */
const MOST = 8;

/** Lists of one kind of thing, and no parts that one class hands to another. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  AdmissionWebhookOptions: 'an admission webhook as its author declares it',
  ControllerOptions: 'a controller as its author declares it',
  Description: 'the same, as the function tells the gateway',
  JsonSchema: 'a format of others',
  ControlPlaneOptions: 'a control plane as the author of a test asks for it',
};

/** Of each that has too many fields how many. */
function tooWide(paths: readonly string[]): Record<string, number> {
  const wide = [...optionFields(paths)].filter(([, fields]) => fields.length > MOST);
  return Object.fromEntries(wide.map(([name, fields]) => [name, fields.length]));
}

test('no options object of src has more than eight fields', () => {
  const paths = globSync('src/**/*.ts', { exclude: ['src/function/kinds/**'] }).filter(
    (path) => !path.endsWith('.test.ts'),
  );
  const found = optionFields(paths);
  expect(found.size).toBeGreaterThan(40);
  expect(found.get('InformerOptions')).toContain('runtime');
  const wide = Object.keys(tooWide(paths));
  expect(wide.filter((name) => !(name in EXCEPTIONS))).toEqual([]);
  expect(Object.keys(EXCEPTIONS).filter((name) => !wide.includes(name))).toEqual([]);
});

test('one with nine fields is found: by its name, by a constructor, and by what it extends', () => {
  const folder = mkdtempSync(join(tmpdir(), 'option-fields-'));
  try {
    const fields = (from: string, count: number): string =>
      Array.from({ length: count }, (_, at) => `readonly ${from}${at}?: string;`).join(' ');
    const path = join(folder, 'a.ts');
    const texts = [
      `export interface EightOptions { ${fields('a', 8)} }`,
      `interface NineOptions { ${fields('a', 9)} }`,
      `export interface Parts { ${fields('a', 9)} }`,
      'export class Made { constructor({ a0 }: Parts) {} }',
      `export interface NotTaken { ${fields('a', 9)} }`,
      'export interface MoreOptions extends EightOptions { readonly b: () => void }',
      "export interface PickedOptions extends Pick<EightOptions, 'a0' | 'a1'> { readonly b: string }",
      "export interface LessOptions extends Omit<Parts, 'a0'> { readonly b: string }",
      `export type AliasOptions = { ${fields('a', 9)} };`,
    ];
    writeFileSync(path, texts.join('\n'));
    expect(tooWide([path])).toEqual({ AliasOptions: 9, LessOptions: 9, MoreOptions: 9, NineOptions: 9, Parts: 9 });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
