import { describe, expect, it } from 'vitest';
import type { RequestSource } from '../../../core/index.ts';
import { StatusError } from '../cache-api/kubernetes-status.ts';
import { ReviewBodies } from './review-body.ts';

const MEBIBYTE = 1024 * 1024;
const stranger: RequestSource = { name: '127.0.0.2', isKnown: false };

const post = (body: string | ReadableStream): Request =>
  new Request('https://127.0.0.1/webhooks/a/b', { method: 'POST', body, duplex: 'half' });

const codeOf = async (work: Promise<unknown>): Promise<number | undefined> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return error instanceof StatusError ? error.status.code : undefined;
};

describe('the bodies of reviews', () => {
  it('have one room for all controllers of a tenant, and another one for those of another tenant', async () => {
    const bodies = new ReviewBodies();
    const over = Promise.withResolvers<void>();
    const of = (tenant: string, source = stranger): Promise<string | void> =>
      bodies.with(post('x'.repeat(8 * MEBIBYTE)), { tenant, maxBytes: 8 * MEBIBYTE, source }, () => over.promise);
    // With the room that each takes in addition to its body, a fourth does not fit into the half of one source.
    const held = Array.from({ length: 3 }, () => of('a.'));
    expect(await codeOf(of('a.'))).toBe(503);
    const elsewhere = of('b.', { name: '127.0.0.3', isKnown: false });
    over.resolve();
    await Promise.all([...held, elsewhere]);
    await of('a.');
  });

  it.each([
    ['as large as an object may be, old and new', 3, true],
    ['as large as a review may be', 8, false],
  ])('of tiny values are read when they are %s', async (_what, mebibytes, isRead) => {
    const text = `[${'{},'.repeat((mebibytes * MEBIBYTE) / 3 - 2)}{}]`;
    const body = { tenant: 'a.', maxBytes: 8 * MEBIBYTE, source: stranger };
    const read = new ReviewBodies().with(post(text), body, async (given) => given.length);
    expect(await codeOf(read)).toBe(isRead ? undefined : 413);
  });

  it('take room however small they are, and leave room for those of another source', async () => {
    const bodies = new ReviewBodies();
    const over = Promise.withResolvers<void>();
    const of = (source: RequestSource): Promise<void> =>
      bodies.with(post('{}'), { tenant: 'a.', maxBytes: 8 * MEBIBYTE, source }, () => over.promise);
    const codes = Array.from({ length: 10_000 }, () => codeOf(of(stranger)));
    const apiserver = of({ name: '127.0.0.3', isKnown: false });
    over.resolve();
    await apiserver;
    const refused = (await Promise.all(codes)).filter((code) => code === 503);
    expect(refused.length).toBeGreaterThan(5000);
    // All is given back.
    await of(stranger);
  });

  it.each(['of a length that is allowed', 'that is too large'])(
    'end with too many small chunks in a review %s',
    async (what) => {
      const bodies = new ReviewBodies();
      let read = 0;
      const body = new ReadableStream({
        pull(controller) {
          read += 1;
          if (read > MEBIBYTE) controller.close();
          else controller.enqueue(Uint8Array.of(32));
        },
      });
      const request = post(body);
      const maxBytes = what === 'that is too large' ? 1000 : 8 * MEBIBYTE;
      const review = bodies.with(request, { tenant: 'a.', maxBytes, source: stranger }, async (text) => text);
      expect(await codeOf(review)).toBe(400);
      expect(read).toBeLessThan(5000);
      // So the connection is closed.
      expect(bodies.isWhole(request)).toBe(false);
    },
  );
});
