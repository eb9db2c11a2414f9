import { describe, expect, it } from 'vitest';
import { descriptionSchema } from './description-schema.ts';

const pods = { apiVersion: 'v1', kind: 'Pod' };
const least = { version: 'v1', name: 'web', for: pods };

describe('descriptionSchema', () => {
  it('fills in what is not said', () => {
    expect(descriptionSchema.parse(least)).toEqual({
      ...least,
      owns: [],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 1,
      timeoutSeconds: 15,
    });
  });

  it.each([
    { name: 'a' },
    { name: '0' },
    { name: 'a-b' },
    { name: 'a'.repeat(63) },
    { concurrency: 1000 },
    { timeoutSeconds: 1.5 },
    { maxBatch: 1 },
    { maxBatch: 100 },
    { callbackSeconds: 1 },
    { callbackSeconds: 86_400 },
  ])('accepts %o', (part) => {
    expect(descriptionSchema.parse({ ...least, ...part })).toMatchObject(part);
  });

  it.each<object>([
    { version: 'v2' },
    { name: '' },
    { name: 'Web' },
    { name: 'web-' },
    { name: '-web' },
    { name: 'a.b' },
    { name: 'a:b' },
    { name: 'a'.repeat(64) },
    { for: undefined },
    { for: { apiVersion: '', kind: 'Pod' } },
    { owns: [{ kind: 'Pod' }] },
    { reads: pods },
    { concurrency: 0 },
    { concurrency: 1.5 },
    { concurrency: 1001 },
    { timeoutSeconds: 0 },
    { timeoutSeconds: 901 },
    { timeoutSeconds: '15' },
    { maxBatch: 0 },
    { maxBatch: 101 },
    { maxBatch: 1.5 },
    { callbackSeconds: 0 },
    { callbackSeconds: 86_401 },
  ])('refuses %o', (part) => {
    expect(descriptionSchema.safeParse({ ...least, ...part }).success).toBe(false);
  });
});
