import { describe, expect, it } from 'vitest';
import { OBSERVED_FIELD, observedAtMs, observedItem, observedItems, observedValue } from './observed.ts';

const node = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'a', uid: 'u', resourceVersion: '1' },
  spec: {
    seconds: 9223372036854775807n,
    taints: [
      { key: 'x.io/y', effect: 'NoExecute' },
      { key: 'z', effect: 'NoSchedule' },
    ],
  },
  status: {
    conditions: [
      { type: 'Ready', lastHeartbeatTime: 'noon' },
      { type: 'DiskPressure', lastHeartbeatTime: 'night' },
    ],
  },
};

describe('observedValue', () => {
  it.each([
    ['metadata.name', '["a"]'],
    ['status.conditions.lastHeartbeatTime', '["noon","night"]'],
    ['status.conditions[type=Ready].lastHeartbeatTime', '["noon"]'],
    ['status.conditions[type=Other].lastHeartbeatTime', '[]'],
    ['spec.taints[effect=NoExecute]', '[{"key":"x.io/y","effect":"NoExecute"}]'],
    ['spec.taints[key=x.io/y].effect', '["NoExecute"]'],
    ['spec.constructor.name', '[]'],
    ['spec.seconds', '[9223372036854775807]'],
  ])('of %s is %s', (field, value) => {
    expect(field).toMatch(OBSERVED_FIELD);
    expect(observedValue(node, field)).toBe(value);
  });
});

it('counts a value that is nested too deep, or too long, as another one with each version', () => {
  const nested = (levels: number): unknown => {
    let value: unknown = 'x';
    for (let at = 0; at < levels; at += 1) value = at % 2 === 0 ? [value] : { a: value };
    return value;
  };
  const at = (resourceVersion: string, spec: unknown) => ({
    ...node,
    metadata: { ...node.metadata, resourceVersion },
    spec,
  });
  for (const large of [
    nested(10_000),
    Object.fromEntries(Array.from({ length: 20_000 }, (_, key) => [`k${key}`, 1])),
  ]) {
    expect(observedValue(at('7', large), 'spec')).toBe('7');
    expect(observedValue(at('8', { large }), 'spec')).toBe('8');
  }
  for (const small of [nested(20), 'x'.repeat(300_000), Number.NaN, 'a\nb']) {
    expect(observedValue(at('7', small), 'spec')).toBe(observedValue(at('8', small), 'spec'));
  }
});

describe('the items of a field with braces', () => {
  const field = 'spec.taints[effect=NoExecute]{key,value}';

  it('are known by the values of these fields alone', () => {
    expect(field).toMatch(OBSERVED_FIELD);
    const taints = [
      { key: 'a', value: 'b', effect: 'NoExecute', timeAdded: 'noon' },
      { key: 'a', value: '', effect: 'NoExecute' },
      { key: 'a', effect: 'NoExecute' },
      { key: 'c', effect: 'NoSchedule' },
      { key: 'x'.repeat(3000), effect: 'NoExecute' },
      { key: { deep: 1 }, effect: 'NoExecute' },
    ];
    expect(observedItems({ ...node, spec: { taints } } as never, field)).toEqual(['["a","b"]', '["a",""]']);
    expect(observedItem(field, taints[0])).toBe('["a","b"]');
    expect(observedItem(field, taints[4])).toBeUndefined();
    expect(observedItems(node, 'spec.taints[effect=NoExecute]')).toBeUndefined();
    const many = Array.from({ length: 5000 }, (_, at) => ({ key: `${at}`, effect: 'NoExecute' }));
    const items = observedItems({ ...node, spec: { taints: many } } as never, field) ?? [];
    expect(items.length).toBeGreaterThan(100);
    expect(items.join('').length).toBeLessThanOrEqual(2048);
  });

  it('are looked for among the first 2,000 alone, and so are the values of other fields', () => {
    let looks = 0;
    const taint = {
      get effect() {
        looks += 1;
        return 'NoExecute';
      },
    };
    const spec = { taints: Array.from({ length: 100_000 }, () => taint) };
    const long = { ...node, metadata: { ...node.metadata, resourceVersion: '7' }, spec };
    expect(observedItems(long as never, 'spec.taints[effect=NoExecute]{effect}')).toEqual(['["NoExecute"]']);
    expect(observedValue(long as never, 'spec.taints[effect=NoExecute].key')).toBe('7');
    expect(looks).toBeLessThan(5000);
  });

  it('have each a time of their own in what is stored', () => {
    const stored = '30 uid\n10 ["a","b"]\n30 ["a",""]';
    expect(observedAtMs(stored)).toBe(30);
    expect(observedAtMs(stored, '["a","b"]')).toBe(10);
    expect(observedAtMs(stored, '["c",""]')).toBeUndefined();
    expect(observedAtMs('30 uid', '["a","b"]')).toBeUndefined();
  });
});

it.each([
  'a{}',
  'a{b',
  'a{b}c',
  'a{b,}',
  'a{b}{c}',
  '{a}',
  '',
  '.a',
  'a.',
  'a[b]',
  'a[b=]',
  'a[=c]',
  'a[b=c]d',
  'a b',
  'a=b',
])('%j is no field', (text) => {
  expect(text).not.toMatch(OBSERVED_FIELD);
});

it('reads the time of a stored value', () => {
  expect(observedAtMs('1700000000000 uid ["a b"]')).toBe(1_700_000_000_000);
});
