import { describe, expect, it } from 'vitest';
import type { OutcomeBody } from './outcome.ts';
import { outcomeSchema } from './outcome-schema.ts';

const write = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'b', uid: 'u', resourceVersion: '5' };
const ok = (result: unknown, version: unknown = 'v1') =>
  outcomeSchema.safeParse({ version, results: [result] }).success;

describe('outcomeSchema', () => {
  it('gives what a function answers', () => {
    const body: OutcomeBody = {
      version: 'v1',
      results: [
        { status: 'done' },
        { status: 'done', requeueAfterSeconds: 0.5, writes: [write] },
        { status: 'error', message: 'm', retryAfterSeconds: 3, writes: [{ ...write, deleted: true }] },
        { status: 'terminal', message: '', writes: [] },
      ],
    };
    expect(outcomeSchema.parse(JSON.parse(JSON.stringify(body)))).toEqual(body);
  });

  it('passes over fields of later versions', () => {
    expect(outcomeSchema.parse({ version: 'v1', later: 1, results: [{ status: 'done', later: 2 }] })).toEqual({
      version: 'v1',
      results: [{ status: 'done' }],
    });
  });

  it.each<[string, unknown]>([
    ['of no known status', { status: 'fine' }],
    ['that is null', null],
    ['to be requeued in the past', { status: 'done', requeueAfterSeconds: -1 }],
    ['to be requeued in more than a year', { status: 'done', requeueAfterSeconds: 366 * 86_400 }],
    ['to be requeued at no number', { status: 'done', requeueAfterSeconds: '5' }],
    ['to be requeued at null, as JSON has NaN', { status: 'done', requeueAfterSeconds: null }],
    ['that fails without a message', { status: 'error' }],
    ['that is terminal without a message', { status: 'terminal' }],
    ['with a write without a UID', { status: 'done', writes: [{ ...write, uid: undefined }] }],
    ['with a write of no API version', { status: 'done', writes: [{ ...write, apiVersion: 'v1/../apps' }] }],
    ['with a write of no kind', { status: 'done', writes: [{ ...write, kind: 'Pod/status' }] }],
    ['with a write in no namespace', { status: 'done', writes: [{ ...write, namespace: '..' }] }],
    ['with a write of no name', { status: 'done', writes: [{ ...write, name: '..' }] }],
    ['with a write whose UID is of two lines', { status: 'done', writes: [{ ...write, uid: 'a\nb' }] }],
    ['with a write that was not deleted', { status: 'done', writes: [{ ...write, deleted: false }] }],
    ['with writes that are no array', { status: 'done', writes: write }],
  ])('refuses a result %s', (_what, result) => {
    expect(ok(result)).toBe(false);
  });

  it('refuses another version, and no results', () => {
    expect(ok({ status: 'done' }, 'v2')).toBe(false);
    expect(outcomeSchema.safeParse({ version: 'v1' }).success).toBe(false);
    expect(outcomeSchema.safeParse(undefined).success).toBe(false);
  });
});
