import { describe, expect, it } from 'vitest';
import { redacted } from './redacted.ts';

const JWT = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl_-x';
const PEM = `-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED

MIIE
-----END RSA PRIVATE KEY-----`;

describe('redacted', () => {
  it.each([
    ['a token of a ServiceAccount', `401: ${JWT} is not valid`, '401: [redacted] is not valid'],
    ['a bearer', 'GET /: Authorization: Bearer abcdef0123456789', 'GET /: Authorization: Bearer [redacted]'],
    ['a signing secret', 'bad whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'bad [redacted]'],
    ['a password in a URL', 'redis://app:hunter2@redis:6379 is down', 'redis://app:[redacted]@redis:6379 is down'],
    ['one behind a port', 'http://a:80/x,redis://app:hunter2@redis', 'http://a:80/x,redis://app:[redacted]@redis'],
    ['no port', 'http://web:8080/@scope is away', 'http://web:8080/@scope is away'],
    ['one with an at sign', 'redis://app:p@ss@redis is down', 'redis://app:[redacted]@redis is down'],
    ['one with a slash', 'redis://app:pa/ss@redis is down', 'redis://app:[redacted]@redis is down'],
    ['a password by name', 'connect password=correct-horse host=db', 'connect password=[redacted] host=db'],
    ['one of several words', 'password="correct horse", x', 'password=[redacted], x'],
    ['one with spaces around', 'password = x1y2 in my.cnf', 'password = [redacted] in my.cnf'],
    ['a key in JSON', '{"apiKey": "a1b2c3d4e5"}', '{"apiKey": [redacted]}'],
    ['a short password in JSON', '{"password":"abc","user":"x"}', '{"password":[redacted],"user":"x"}'],
    [
      'a password in JSON in JSON',
      String.raw`{"body":"{\"password\":\"abc\"}"}`,
      String.raw`{"body":"{\"password\":[redacted]}"}`,
    ],
    ['a password as Python prints it', "{'password': 'hunter2'}", "{'password': [redacted]}"],
    [
      'a key that has a name behind it',
      'AWS_SECRET_ACCESS_KEY=wJalr SECRET_KEY=abc',
      'AWS_SECRET_ACCESS_KEY=[redacted] SECRET_KEY=[redacted]',
    ],
    ['a passphrase', 'passphrase: a1b2c3d4e5', 'passphrase: [redacted]'],
    ['an account key', 'AccountKey=ab/c==;Endpoint', 'AccountKey=[redacted];Endpoint'],
    ['a key of a cloud', 'AKIAIOSFODNN7EXAMPLE was refused', '[redacted] was refused'],
    ['a token of GitHub', 'ghp_0123456789abcdefghij', '[redacted]'],
    ['a private key', `${PEM} read`, '[redacted] read'],
    ['a private key that is cut', 'x -----BEGIN EC PRIVATE KEY-----\nMIIE', 'x [redacted]'],
  ])('takes %s', (_, text, shown) => expect(redacted(text)).toBe(shown));

  it.each([
    JWT,
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'ghp_0123456789abcdefghij',
    'AKIAIOSFODNN7EXAMPLE',
    'Bearer abcdef0123456789',
    PEM,
  ])('takes %j from a field of a log line, behind a line break', (secret) => {
    const shown = redacted(JSON.stringify({ body: `x:\n${secret}` }));
    expect(shown).toMatch(/^\{"body":"x:\\n(Bearer )?\[redacted\]/);
    expect(shown).not.toContain(secret.slice(-8));
  });

  it.each([
    'the token: expired, and the password is wrong',
    'password: must not be empty',
    'secrets "app" is forbidden: User "system:serviceaccount:shop:web" cannot get resource "secrets"',
    'Secret shop/db-password does not exist',
    'https://example.com:8443/a@b is not reachable',
    'no key in map: a',
  ])('leaves %j', (text) => expect(redacted(text)).toBe(text));

  /** Beginnings that a pattern without bounds would follow to the end of the text, again and again. */
  it.each([
    '-eyJ',
    'eyJaaaaaaaa.',
    'password',
    'password=',
    'token: ',
    'token: a',
    'token:\\"',
    '://a',
    '://a:',
    '://:@',
    '-----BEGIN ',
    '-----BEGIN PRIVATE KEY-----',
    'Bearer ',
    ' ',
    'a',
  ])('takes time in proportion to the text: %j', (part) => {
    const textOf = (length: number): string => part.repeat(Math.ceil(length / part.length));
    const time = (text: string): number => {
      const spent = Array.from({ length: 3 }, () => {
        const start = process.cpuUsage();
        redacted(text);
        const { user, system } = process.cpuUsage(start);
        return user + system;
      });
      return Math.min(...spent);
    };
    time(textOf(4096));
    // A text 16 times as long takes 256 times as long in quadratic time.
    expect(time(textOf(262_144))).toBeLessThan(80 * Math.max(200, time(textOf(16_384))));
  });
});
