import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../../core/index.ts';
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

  it('is handled up to a size', () => {
    expect(unhandledReason({ object: object(1), json: 'x'.repeat(MAX_LENGTH) })).toBeUndefined();
    expect(unhandledReason({ object: object(1), json: 'x'.repeat(MAX_LENGTH + 1) })).toContain('characters');
  });

  it('that is not handled is known by its metadata, of which nothing is deep', () => {
    const labels = { app: 'web' };
    const given = { ...object(1), metadata: { ...object(1).metadata, labels, managedFields: [{}] } };
    expect(metadataOf(given)).toEqual({ ...object(1), metadata: { ...object(1).metadata, labels }, spec: undefined });
    expect('spec' in metadataOf(given)).toBe(false);
  });
});
