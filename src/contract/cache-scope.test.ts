import { describe, expect, it } from 'vitest';
import { allows } from './cache-scope.ts';

describe('a scope of the cache', () => {
  it('holds kinds, each in all namespaces or in those named', () => {
    const scope = { 'v1/Pod': '*', 'apps/v1/ReplicaSet': ['a', 'b'] } as const;
    expect(allows(scope, 'v1/Pod', undefined)).toBe(true);
    expect(allows(scope, 'v1/Pod', 'any')).toBe(true);
    expect(allows(scope, 'apps/v1/ReplicaSet', 'a')).toBe(true);
    expect(allows(scope, 'apps/v1/ReplicaSet', 'c')).toBe(false);
    expect(allows(scope, 'apps/v1/ReplicaSet', undefined)).toBe(false);
    expect(allows(scope, 'v1/Secret', 'a')).toBe(false);
    expect(allows(scope, 'constructor', 'a')).toBe(false);
  });
});
