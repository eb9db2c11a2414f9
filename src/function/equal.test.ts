import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { equal } from './equal.ts';

const limited = (memory: unknown) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  spec: { template: { spec: { containers: [{ name: 'c', resources: { limits: { memory } } }] } } },
});

describe('equal', () => {
  it.each([
    [
      { a: 1, b: { c: [1, 2], d: null } },
      { b: { c: [1, 2] }, a: 1 },
    ],
    [
      { 'a.html': '1', 'a-b.html': '2' },
      { 'a-b.html': '2', 'a.html': '1' },
    ],
    [undefined, {}],
    [{}, null],
    [{ metadata: { labels: {}, annotations: null } }, { metadata: {} }],
    [{ spec: { args: [] } }, { spec: { args: null } }],
    [{ containers: [{ name: 'a', resources: {} }] }, { containers: [{ name: 'a' }] }],
    [{ resources: { limits: {}, requests: null } }, {}],
    [{ spec: { strategy: {}, template: { metadata: {} } }, status: {} }, { spec: { template: {} } }],
    [5, 5n],
    [[5n], [5]],
  ])('%o is the same as %o', (a, b) => {
    expect(equal(a, b)).toBe(true);
    expect(equal(b, a)).toBe(true);
  });

  it.each([
    [{ a: [1, 2] }, { a: [2, 1] }],
    [{ a: [1] }, { a: [1, 1] }],
    [{ replicas: 0 }, {}],
    [{ automount: false }, {}],
    [{ value: '' }, {}],
    [{ volumes: [{ name: 'v', emptyDir: {} }] }, { volumes: [{ name: 'v' }] }],
    [{ from: [{ namespaceSelector: {} }] }, { from: [{}] }],
    [[[]], [[], []]],
    [{ data: { limits: '1G' } }, { data: { limits: '1e9' } }],
    [{ constructor: 'x' }, {}],
    [{ a: 1 }, { a: '1' }],
    [9007199254740992, 9007199254740993n],
    [{ a: {} }, { a: [] }],
    [NaN, 5n],
  ])('%o is not the same as %o', (a, b) => {
    expect(equal(a, b)).toBe(false);
    expect(equal(b, a)).toBe(false);
  });

  it.each([
    ['1Gi', '1073741824'],
    ['1G', '1e9'],
    ['1G', '1000M'],
    ['2', '2e0'],
    ['2', 2],
    ['0.5', '500m'],
    ['.5', '5e-1'],
    ['1.', '1'],
    ['1.5Gi', '1536Mi'],
    ['+1k', '1000'],
    ['-1500m', '-1.5'],
    ['0', '0Gi'],
    ['0.1n', '1n'],
    ['10Ei', '9223372036854775807'],
    ['1E', '1e18'],
  ])('the quantity %s is %s', (a, b) => {
    expect(equal(limited(a), limited(b))).toBe(true);
    expect(equal(limited(a).spec.template, limited(b).spec.template, 'PodTemplateSpec')).toBe(true);
    // Without a known schema, quantities are compared as text.
    expect(equal(limited(a).spec, limited(b).spec)).toBe(false);
  });

  it.each([
    ['1Gi', '1G'],
    ['1m', '1M'],
    ['1', '-1'],
    ['1', 'one'],
    ['', '.'],
    ['one', 'two'],
    ['1', undefined],
    ['1e999999999', '1e999999998'],
  ])('the quantity %s is not %s', (a, b) => {
    expect(equal(limited(a), limited(b))).toBe(false);
  });

  it('does not compute with text that is longer than any quantity', () => {
    const long = `1${'0'.repeat(2 ** 20)}`;
    expect(equal(limited(long), limited(`${long}.0`))).toBe(false);
  });

  it('knows the quantities of other parts and kinds', () => {
    const template = (size: string, divisor: string) => ({
      spec: {
        overhead: { cpu: size },
        initContainers: [{ env: [{ valueFrom: { resourceFieldRef: { divisor } } }] }],
        volumes: [
          { emptyDir: { sizeLimit: size } },
          { ephemeral: { volumeClaimTemplate: { spec: { resources: { requests: { storage: size } } } } } },
        ],
      },
    });
    expect(equal(template('1k', '1M'), template('1000', '1e6'), 'PodTemplateSpec')).toBe(true);
    expect(equal(template('1k', '1M'), template('1000', '1e7'), 'PodTemplateSpec')).toBe(false);
    const quota = (pods: string) => ({ apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard: { pods } } });
    expect(equal(quota('1k'), quota('1000'))).toBe(true);
    expect(equal(quota('1k'), { ...quota('1k'), kind: 'Other' })).toBe(false);
  });

  it('tells empty resources of a pod from absent ones, where Go has a pointer, and no empty ones of a container', () => {
    const podOf = (resources: object) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      spec: { containers: [{ name: 'c', ...resources }] },
      status: { phase: 'Running' },
    });
    const bare = podOf({});
    expect(equal(podOf({ resources: {} }), bare)).toBe(true);
    expect(equal({ ...bare, spec: { ...bare.spec, resources: {} } }, bare)).toBe(false);
    expect(equal({ ...bare, status: { ...bare.status, resources: {} } }, bare)).toBe(false);
    const running = (more: object) => ({ ...bare, status: { containerStatuses: [{ name: 'c', ...more }] } });
    expect(equal(running({ resources: {} }), running({}))).toBe(false);
    expect(equal(running({ resources: { limits: {} } }), running({ resources: {} }))).toBe(true);
    // Both are specs of a template; one has no other field.
    expect(equal({ spec: { resources: {} } }, { spec: {} }, 'PodTemplateSpec')).toBe(false);
  });

  it('says of any value that it is the same as itself in another order, and of no change that nothing has changed', () => {
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .toReversed()
          .map(([name, each]) => [name, shuffled(each)]),
      );
    };
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(equal(value, shuffled(structuredClone(value)))).toBe(true);
        expect(equal({ value, more: 1 }, { value, more: 2 })).toBe(false);
        expect(equal([value], [value, value])).toBe(false);
      }),
    );
  });
});
