import { expect, test } from 'vitest';
import { yamlBlock, yamlOf } from './object.ts';

const object = (data: string): Parameters<typeof yamlOf>[0] =>
  ({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' }, data: { text: data } }) as never;

test('fields come in alphabetical order, whatever order the server has sent', () => {
  expect(yamlOf(object('x'))).toBe('apiVersion: v1\ndata:\n  text: x\nkind: ConfigMap\nmetadata:\n  name: a\n');
});

test("kubectl's copy of an earlier state is folded, and nothing of it is lost", () => {
  const copy = '{"kind":"ConfigMap","data":{"text":"<b>"}}';
  const name = 'kubectl.kubernetes.io/last-applied-configuration';
  const metadata = { name: 'a', annotations: { note: 'x', [name]: `${copy}\n` } };
  const shown = yamlBlock({ ...object('x'), metadata: metadata as never }, 'Object').toString();
  const [yaml = '', folded = ''] = shown.split('<details');
  expect(yaml).toContain('  annotations:\n    note: x\n  name: a\n');
  expect(yaml).not.toContain(name);
  expect(folded).toContain(`aria-label="${name}"`);
  expect(folded).toContain('&lt;b&gt;');
  expect(yamlBlock(object('x'), 'Object').toString()).not.toContain('<details');
});

test('a large object is cut', () => {
  const text = yamlOf(object('x'.repeat(3_000_000)));
  expect(text.length).toBeLessThan(201_000);
  expect(text).toContain('The first 200,000 of 3000');
});

test.each([
  [100, /^# All of \d+ characters, as JSON:\n\{/],
  [2000, /^# All of \d+ characters, as JSON:\n\{/],
  [100_000, /^# It is nested too deeply to be shown\.\n$/],
])('shows no YAML of an object that is %i levels deep', (depth, text) => {
  const nested: unknown = JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
  expect(yamlOf({ ...object('x'), spec: nested } as Parameters<typeof yamlOf>[0])).toMatch(text);
});

test('shows a large object with many small fields as JSON', () => {
  const data = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`field-${at}`, 'x']));
  expect(yamlOf({ ...object('x'), data } as Parameters<typeof yamlOf>[0])).toMatch(/^# All of \d+ characters/);
});

test.each(['off', 'y', '0644', '1_000', '1:30', '9007199254740993'])(
  'the YAML of an object quotes the text %s, which kubectl would read as another value',
  (text) => {
    expect(yamlOf(object(text))).toContain(`text: "${text}"\n`);
  },
);
