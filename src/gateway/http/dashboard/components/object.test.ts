import { expect, test } from 'vitest';
import type { ObjectStates } from '../data.ts';
import { changePanel, objectPanel, yamlBlock, yamlOf } from './object.ts';

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

test('the change of an object shows its changed lines and those around them, and says what cannot be shown', async () => {
  const data = (last: string): never =>
    ({
      ...object('x'),
      data: { ...Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a${at}`, 'same'])), z: last },
    }) as never;
  const of = async (before: string | undefined, after: string, managers: string[] = []): Promise<string> => {
    const change = {
      kind: 'shown',
      before: before === undefined ? undefined : data(before),
      after: data(after),
      managers,
    } as const;
    return (await changePanel('v1/ConfigMap a', change, async (work) => work())).toString();
  };
  const small = await of('<old>', '<new>', ['a', 'b']);
  expect(small).toContain('by a or b');
  expect(small).toMatch(/<del> *z: &lt;old&gt;<\/del>/);
  expect(small).toMatch(/<ins> *z: &lt;new&gt;<\/ins>/);
  expect(small.match(/: same/g)?.length).toBeLessThan(10);
  expect(await of(undefined, 'x')).not.toContain('<del>');
  expect(await of('x', 'x')).toContain('and no other');
  const large = 'l'.repeat(300_000);
  expect(await of(`${large}1`, `${large}2`)).toContain('too large or too deep to show');
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

test('shows a small object with many values as JSON', () => {
  const withFields = (count: number): Parameters<typeof yamlOf>[0] => {
    const data = Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 1]));
    return { ...object('x'), data } as never;
  };
  expect(yamlOf(withFields(2000))).toMatch(/^# All of \d+ characters, as JSON:/);
  expect(yamlOf(withFields(1400))).toMatch(/^apiVersion: v1\n/);
});

const lastApplied = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
const applied = { ...object('x'), metadata: { name: 'a', annotations: lastApplied } as never };
const nameOnly = { ...object('x'), data: undefined };

/** Says when a field of it is read. */
function watched(of: Parameters<typeof yamlOf>[0] | undefined, onRead: () => void): typeof of {
  return (
    of &&
    new Proxy(of, {
      get: (target, name) => {
        onRead();
        return Reflect.get(target, name) as unknown;
      },
    })
  );
}

/** The comparison, a text of each object that is shown, and the table of their difference. */
test.each([
  ['that are the same', object('x'), object('x'), 2, false],
  [
    'whose fields have another order',
    object('x'),
    Object.fromEntries(Object.entries(object('x')).toReversed()),
    2,
    false,
  ],
  ['that are the same and applied by kubectl', applied, { ...applied }, 2, false],
  ['that differ', object('x'), object('y'), 4, true],
  ['of which the cache has one', object('x'), undefined, 2, false],
  ['of which the server has one', undefined, object('x'), 2, false],
])('looks at objects %s in pieces of the time of the visitor alone', async (_, cached, server, pieces, isCompared) => {
  let [made, outside, isPaced] = [0, 0, false];
  const onRead = (): void => {
    if (!isPaced) outside += 1;
  };
  const pace = async <T>(work: () => T): Promise<T> => {
    made += 1;
    isPaced = true;
    const result = work();
    isPaced = false;
    return result;
  };
  const both = { cached: watched(cached, onRead), server: watched(server as typeof cached, onRead) };
  const states = { kind: 'shown', ...both, serverError: undefined } as ObjectStates;
  expect((await objectPanel(states, { pace })).isCompared).toBe(isCompared);
  expect([made, outside]).toEqual([pieces, 0]);
});

test('an object that the cache keeps out is shown as the server has it, in the whole width', async () => {
  const states = { kind: 'shown', cached: nameOnly, server: object('x'), serverError: undefined } as ObjectStates;
  const { panel, isCompared } = await objectPanel(states, { isKeptOut: true, pace: async (work) => work() });
  expect(panel.toString()).toContain('kept out of the cache');
  expect(panel.toString()).toContain('text: x');
  expect(isCompared).toBe(true);
});

test('a long comparison is cut, and has the first difference', async () => {
  const lines = (changed: string): string =>
    Array.from({ length: 3000 }, (_, at) => (at === 2500 ? changed : `l${at}`)).join('\n');
  const states = { kind: 'shown', cached: object(lines('old')), server: object(lines('new')), serverError: undefined };
  const { panel } = await objectPanel(states as ObjectStates, { pace: async (work) => work() });
  const text = panel.toString();
  expect(text.match(/<tr>/g)?.length).toBeLessThanOrEqual(501);
  expect(text).toContain('<del>    old</del>');
  expect(text).toContain('<ins>    new</ins>');
  expect(text).toMatch(/Only \d+ of 3,0\d\d rows are shown, from the first difference on\./);
  expect(
    (await objectPanel({ ...states, server: object('y') } as ObjectStates, { pace: async (work) => work() })).panel
      .toString()
      .match(/<tr>/g)?.length,
  ).toBeLessThanOrEqual(501);
});
