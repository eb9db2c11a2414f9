import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redacted } from './redacted.ts';

const JWT = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl_-x';

describe('redacted', () => {
  it.each([
    ['a token of a ServiceAccount', `401: ${JWT} is not valid`, '401: [redacted] is not valid'],
    ['a bearer', 'GET /: Authorization: Bearer abcdef0123456789', 'GET /: Authorization: Bearer [redacted]'],
    ['a signing secret', 'bad whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'bad [redacted]'],
    ['a password in a URL', 'redis://app:hunter2@redis:6379 is down', 'redis://app:[redacted]@redis:6379 is down'],
    [
      'a password by name',
      'connect user=app password=correct-horse host=db',
      'connect user=app password=[redacted] host=db',
    ],
    ['a key in JSON', '{"apiKey": "a1b2c3d4e5"}', '{"apiKey": "[redacted]"}'],
    ['an environment variable', 'DB_PASSWORD=x', 'DB_PASSWORD=[redacted]'],
    ['a key of a cloud', 'AKIAIOSFODNN7EXAMPLE was refused', '[redacted] was refused'],
    ['a token of GitHub', 'ghp_0123456789abcdefghij', '[redacted]'],
    ['a private key', '-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- read', '[redacted] read'],
    ['a private key that is cut', 'x -----BEGIN EC PRIVATE KEY-----\nMIIE', 'x [redacted]'],
  ])('takes %s', (_, text, shown) => expect(redacted(text)).toBe(shown));

  it.each([
    'the token: expired, and the password is wrong',
    'secrets "app" is forbidden: User "system:serviceaccount:shop:web" cannot get resource "secrets"',
    'Secret shop/db-password does not exist',
    'https://example.com:8443/a@b is not reachable',
    'no key in map: a',
  ])('leaves %j', (text) => expect(redacted(text)).toBe(text));

  it('takes time in proportion to the text, whatever it is', () => {
    const parts = [
      'eyJ',
      'password',
      'token: ',
      '://',
      ':',
      '@',
      '=',
      '-----BEGIN ',
      'PRIVATE KEY-----',
      'a',
      '1',
      ' ',
      '.',
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 12 }), (some) => {
        const time = (length: number): number => {
          const text = some
            .join('')
            .padEnd(1, 'a')
            .repeat(Math.ceil(length / Math.max(1, some.join('').length)));
          const start = process.cpuUsage();
          redacted(text);
          const { user, system } = process.cpuUsage(start);
          return user + system;
        };
        // Of quadratic time the longer text would take 1,000 times as long as a text of a tenth of 32,000 characters.
        time(1000);
        expect(time(32_000)).toBeLessThan(40 * Math.max(2000, time(3200)));
      }),
      { numRuns: 200 },
    );
  });
});
