import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isName, type KubernetesObject } from '../../../core/index.ts';
import { cachedKey } from '../../../contract/node/cached-name.ts';
import { MAX_DEPTH, MAX_LENGTH, metadataOf, unhandledReason } from './kept-out.ts';

const object = (spec: unknown): KubernetesObject & { spec: unknown } => ({
  apiVersion: 'v1',
  kind: 'Thing',
  metadata: { name: 'a', uid: 'u', resourceVersion: '1' },
  spec,
});

/**
 * `levels` lists and objects within each other, at random, the object itself included, with other values next to them.
 */
function deep(levels: number, isList: (level: number) => boolean): unknown {
  let value: unknown = [];
  for (let level = 2; level < levels; level += 1) value = isList(level) ? [1, value, {}] : { a: 'x', b: value, c: [] };
  return object(value);
}

describe('an object', () => {
  it('is handled up to a depth, wherever that is, and no deeper', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 12_000 }), fc.infiniteStream(fc.boolean()), (levels, lists) => {
        const given = deep(levels, () => lists.next().value ?? false) as KubernetesObject;
        expect(unhandledReason({ object: given }) !== undefined).toBe(levels > MAX_DEPTH);
      }),
    );
  });

  it('is looked through without the names of the places in its lists', () => {
    let names = 0;
    const ownKeys = (list: unknown[]): (string | symbol)[] => {
      names += 1;
      return Reflect.ownKeys(list);
    };
    expect(unhandledReason({ object: object(new Proxy([1, 2, [3]], { ownKeys })) })).toBeUndefined();
    expect(names).toBe(0);
  });

  it('is handled up to a size', () => {
    expect(unhandledReason({ object: object(1), json: 'x'.repeat(MAX_LENGTH) })).toBeUndefined();
    expect(unhandledReason({ object: object(1), json: 'x'.repeat(MAX_LENGTH + 1) })).toContain('characters');
  });

  it('is handled up to a length of its name, and is known by the hash of a longer one', () => {
    const named = (name: string) => ({ ...object(1), metadata: { ...object(1).metadata, name } });
    expect(unhandledReason({ object: named('x'.repeat(1024)) })).toBeUndefined();
    const [one, other] = ['a', 'b'].map((end) => named('x'.repeat(500_000) + end));
    if (!one || !other) throw new Error('no objects');
    expect(unhandledReason({ object: one })).toContain('name');
    const names = [one, other].map((each) => metadataOf(each).metadata.name);
    expect(new Set(names).size).toBe(2);
    expect(names.every((name) => name.length < 200)).toBe(true);
    // No object has such a name, or it would be taken for the other one.
    expect(names.some((name) => isName(name))).toBe(false);
    expect(metadataOf(metadataOf(one))).toEqual(metadataOf(one));
    expect(cachedKey({ namespace: 'n', name: one.metadata.name })).toBe(`n/${names[0]}`);
  });

  it('that is not handled is known by its metadata, of which nothing is deep', () => {
    const labels = { app: 'web' };
    const given = { ...object(1), metadata: { ...object(1).metadata, labels, managedFields: [{}] } };
    expect(metadataOf(given)).toEqual({ ...object(1), metadata: { ...object(1).metadata, labels }, spec: undefined });
    expect('spec' in metadataOf(given)).toBe(false);
  });
});
