import { describe, expect, it } from 'vitest';
import { changesBetween, SeenObjects, withoutCredentials } from './object-changes.ts';

describe('the changes between two states of an object', () => {
  const site = { metadata: { name: 'a', resourceVersion: '1', generation: 1 }, spec: { text: 'one', ports: [80, 81] } };

  it.each([
    ['nothing', site, ''],
    ['a value', { ...site, spec: { ...site.spec, text: 'two' } }, 'spec.text "one" → "two"'],
    ['an item of a list', { ...site, spec: { ...site.spec, ports: [80, 82] } }, 'spec.ports[1] 81 → 82'],
    ['the length of a list', { ...site, spec: { ...site.spec, ports: [80] } }, 'spec.ports: 2 → 1 items'],
    ['a value of another type', { ...site, spec: 7 }, 'spec {"text":"one","ports":[80,81]} → 7'],
    ['a new field', { ...site, status: { ready: true } }, 'status was added: {"ready":true}'],
    ['a field that is gone', { metadata: site.metadata }, 'spec was removed'],
    ['null is a value', { ...site, spec: { ...site.spec, text: null } }, 'spec.text "one" → null'],
    [
      'a name with dots',
      { ...site, metadata: { ...site.metadata, labels: { 'a.b/c': 'x' } } },
      'metadata.labels was added: {"a.b/c":"x"}',
    ],
  ])('%s', (_, after, changes) => {
    expect(changesBetween(site, after)).toBe(changes);
  });

  it('leave out what every write changes', () => {
    const written = {
      ...site,
      metadata: { ...site.metadata, resourceVersion: '2', generation: 2, managedFields: [1] },
    };
    expect(changesBetween(site, written)).toBe('');
  });

  it('name fields with dots so that they can be told apart', () => {
    expect(changesBetween({ labels: { 'a.b/c': 'x' } }, { labels: { 'a.b/c': 'y' } })).toBe(
      'labels["a.b/c"] "x" → "y"',
    );
  });

  it('have no values when these must not be shown', () => {
    const before = { data: { password: 'old', user: 'a' } };
    const after = { data: { password: 'new', token: 'b' } };
    expect(changesBetween(before, after, false)).toBe(
      'data.password was changed, data.user was removed, data.token was added',
    );
  });

  it('have no values under the names of credentials', () => {
    const of = (value: string) => ({
      spec: { dbPassword: value, tls: { apiKey: { of: value } }, env: [{ name: 'DB_TOKEN', value }], size: value },
    });
    expect(changesBetween(of('old'), of('new'))).toBe(
      'spec.dbPassword was changed, spec.tls.apiKey.of was changed, spec.env[0].value was changed, ' +
        'spec.size "old" → "new"',
    );
    expect(changesBetween({}, of('new'))).toContain(
      'spec was added: {"dbPassword":"[hidden]","tls":{"apiKey":"[hidden]"}',
    );
    expect(changesBetween({ spec: {} }, { spec: { password: 'new' } })).toBe('spec.password was added');
  });

  it('know names that objects inherit', () => {
    expect(changesBetween({ data: {} }, { data: { toString: 'x', constructor: 'y' } })).toBe(
      'data.toString was added: "x", data.constructor was added: "y"',
    );
    expect(changesBetween({ data: { valueOf: 'x' } }, { data: {} })).toBe('data.valueOf was removed');
  });

  it('are bounded in number and length', () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`f${at}`, 'x'.repeat(1000)]));
    const text = changesBetween({}, many);
    expect(text).toMatch(/^f0 was added: "x{59}…, f1 .*, and 12 more$/);
    expect(text.length).toBeLessThan(700);
  });
});

it('what is sent is shown without credentials', () => {
  const sent = [
    { op: 'replace', path: '/spec/password', value: { plain: 'x' } },
    { op: 'add', path: '/spec/size', value: 3 },
    { containers: [{ name: 'main', env: [{ name: 'API_KEY', value: 'x' }], token: null }] },
  ];
  expect(withoutCredentials(sent)).toEqual([
    { op: 'replace', path: '/spec/password', value: '[hidden]' },
    { op: 'add', path: '/spec/size', value: 3 },
    { containers: [{ name: 'main', env: [{ name: 'API_KEY', value: '[hidden]' }], token: '[hidden]' }] },
  ]);
});

it('of the objects that runs have read the newest 256 are remembered, and none that is large', () => {
  const seen = new SeenObjects();
  expect(seen.replace('a', '1', 'one')).toBeUndefined();
  expect(seen.replace('a', '2', 'two')).toBe('one');
  expect([seen.textOf('a', '2'), seen.textOf('a', '1'), seen.textOf('b', '2')]).toEqual(['two', undefined, undefined]);
  expect(seen.replace('a', '3', 'x'.repeat(20_000))).toBe('two');
  expect(seen.replace('a', '4', 'three')).toBeUndefined();
  for (let at = 0; at < 256; at += 1) seen.replace(`b${at}`, '1', 'x');
  expect(seen.replace('a', '5', 'four')).toBeUndefined();
});
