import { describe, expect, it } from 'vitest';
import { ApiError, isExpired, isTooLargeResourceVersion, parseRetryAfter, statusFrom } from './api-error.ts';

describe('ApiError', () => {
  it('says what the apiserver said', () => {
    const error = new ApiError({ code: 404, reason: 'NotFound', message: 'pods "a" not found' });
    expect(error).toMatchObject({ message: 'pods "a" not found', code: 404, reason: 'NotFound', name: 'ApiError' });
  });

  it('says something when the apiserver said nothing', () => {
    expect(new ApiError({ code: 500 }).message).toBe('the apiserver answered 500 without a message');
    expect(new ApiError({})).toMatchObject({ code: 0, reason: '', retryAfterMs: undefined });
  });

  it('takes the time from the header before the one of the Status', () => {
    const status = { code: 429, details: { retryAfterSeconds: 3 } };
    expect(new ApiError(status).retryAfterMs).toBe(3000);
    expect(new ApiError(status, 7000).retryAfterMs).toBe(7000);
    expect(new ApiError(status, 0).retryAfterMs).toBe(0);
  });
});

describe('isExpired', () => {
  it.each([
    [new ApiError({ code: 410 }), true],
    [new ApiError({ reason: 'Expired' }), true],
    [new ApiError({ reason: 'Gone' }), true],
    [new ApiError({ code: 404, reason: 'NotFound' }), false],
    [new Error('Expired'), false],
    [undefined, false],
  ])('%s: %s', (error, expired) => {
    expect(isExpired(error)).toBe(expired);
  });
});

describe('isTooLargeResourceVersion', () => {
  const message = 'Timeout: Too large resource version: 10, current: 5';
  it.each<[string, unknown, boolean]>([
    [
      'by the reason of a cause',
      new ApiError({ code: 504, details: { causes: [{ reason: 'ResourceVersionTooLarge' }] } }),
      true,
    ],
    // Kubernetes 1.17.0 to 1.18.5.
    [
      'by the message of a cause',
      new ApiError({ reason: 'Timeout', details: { causes: [{ message: 'Too large resource version' }] } }),
      true,
    ],
    // Before 1.17.
    ['by its own message', new ApiError({ code: 504, reason: 'Timeout', message }), true],
    ['not by the message of another error', new ApiError({ code: 400, reason: 'BadRequest', message }), false],
    [
      "not by the message of another error's cause",
      new ApiError({ code: 400, details: { causes: [{ message: 'Too large resource version' }] } }),
      false,
    ],
    ['not by a timeout alone', new ApiError({ code: 504, reason: 'Timeout', message: 'slow' }), false],
    ['not when it is no answer of the apiserver', new Error(message), false],
  ])('%s', (_how, error, tooLarge) => {
    expect(isTooLargeResourceVersion(error)).toBe(tooLarge);
  });
});

describe('statusFrom', () => {
  it('takes the Status, with the code of the answer when it has none', () => {
    expect(statusFrom('{"kind":"Status","reason":"Gone","code":410}', 500)).toMatchObject({
      code: 410,
      reason: 'Gone',
    });
    expect(statusFrom('{"kind":"Status","reason":"Gone"}', 410)).toMatchObject({ code: 410 });
  });

  it.each(['', '<html>Bad gateway</html>', '{"kind":"Pod"}', '"text"', '17', 'null'])('makes one of %j', (body) => {
    const status = statusFrom(body, 502);
    expect(status.code).toBe(502);
    expect(status.message).toContain('the apiserver answered 502');
  });

  it("keeps a proxy's page short", () => {
    expect(statusFrom('x'.repeat(5000), 502).message?.length).toBeLessThan(300);
  });
});

describe('parseRetryAfter', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  it.each<[string | null | undefined, number | undefined]>([
    ['0', 0],
    ['120', 120_000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Wed, 31 Dec 2025 23:59:00 GMT', 0],
    ['soon', undefined],
    ['', undefined],
    [null, undefined],
    [undefined, undefined],
  ])('%j: %s ms', (header, ms) => {
    expect(parseRetryAfter(header, now)).toBe(ms);
  });
});
