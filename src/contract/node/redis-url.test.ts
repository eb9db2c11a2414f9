import { assert, constantFrom, property, record, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageOf } from '../../core/index.ts';
import { parseRedisUrl, withoutPassword } from './redis-url.ts';

const server = {
  kind: 'server',
  hosts: [],
  path: undefined,
  masterName: undefined,
  database: 0,
  hasTls: false,
  username: undefined,
  password: undefined,
};

describe('a Redis URL', () => {
  it.each([
    ['redis://a', { hosts: [{ host: 'a', port: 6379 }] }],
    ['redis://[::1]:7/3', { hosts: [{ host: '::1', port: 7 }], database: 3 }],
    ['rediss://me:p%40ss@a:1', { hosts: [{ host: 'a', port: 1 }], hasTls: true, username: 'me', password: 'p@ss' }],
    ['redis://:pass@a/', { hosts: [{ host: 'a', port: 6379 }], password: 'pass' }],
    ['redis://me@a', { hosts: [{ host: 'a', port: 6379 }], username: 'me' }],
    ['/run/redis.sock', { path: '/run/redis.sock' }],
    [
      'redis+sentinel://me:pass@a,b:27000/mymaster/2',
      {
        kind: 'sentinel',
        hosts: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 27_000 },
        ],
        masterName: 'mymaster',
        database: 2,
        username: 'me',
        password: 'pass',
      },
    ],
    [
      'rediss+sentinel://a/mymaster',
      { kind: 'sentinel', hosts: [{ host: 'a', port: 26_379 }], masterName: 'mymaster', hasTls: true },
    ],
    [
      'rediss+cluster://a,b:7001/0',
      {
        kind: 'cluster',
        hosts: [
          { host: 'a', port: 6379 },
          { host: 'b', port: 7001 },
        ],
        hasTls: true,
      },
    ],
  ])('%s', (url, expected) => {
    expect(parseRedisUrl(url)).toEqual({ ...server, ...expected });
  });

  it.each([
    ['http://a', /^must begin with redis:\/\/, /],
    ['REDIS://a', /^must begin with/],
    ['a:6379', /^must begin with/],
    ['redis://', /^must have hosts as host:port/],
    ['redis://a:0', /^must have hosts/],
    ['redis://a:65536', /^must have hosts/],
    ['redis://a,b', /^must have one host/],
    ['redis://a/x', /^must end with the number of a database/],
    ['redis://a?db=1', /^must have nothing behind the path/],
    ['redis://me:hid/den@a', /^must have \/ \? # and @ of a password as %2F/],
    ['redis://me:hidden%@a', /^must have user and password percent-encoded/],
    ['redis+sentinel://a', /^must have the name of the master/],
    ['redis+cluster://a/1', /^must have no database/],
  ])('%s is refused, and not shown', (url, message) => {
    expect(() => parseRedisUrl(url)).toThrow(message);
    expect(() => parseRedisUrl(url)).not.toThrow('hid');
    expect(withoutPassword(url)).toBe('(a wrong URL)');
  });

  it('is shown without user and password', () => {
    expect(withoutPassword('redis://127.0.0.1:6379')).toBe('redis://127.0.0.1:6379');
    expect(withoutPassword('rediss://me:hidden@a/2')).toBe('rediss://***@a:6379/2');
    expect(withoutPassword('redis+sentinel://:hidden@a,[::1]:1/m')).toBe('redis+sentinel://***@a:26379,[::1]:1/m');
    expect(withoutPassword('/run/redis.sock')).toBe('/run/redis.sock');
  });

  it('shows no password, whatever it is and wherever it stands, and reads one that is encoded', () => {
    const word = string({ minLength: 8, maxLength: 20, unit: constantFrom(...'qxz%:@/?#,[]+&=é'.split('')) });
    const url = record({
      scheme: constantFrom('redis', 'rediss', 'redis+sentinel', 'rediss+cluster', 'http', ''),
      user: constantFrom('', 'me'),
      password: word.filter((text) => /[qxz]{2}/.test(text)),
      rest: constantFrom('a', 'a:1', 'a,b:2', '[::1]', 'a/m', 'a/m/1', 'a?x', ''),
    });
    let read = 0;
    assert(
      property(url, ({ scheme, user, password, rest }) => {
        const secret = /[qxz]{2}/.exec(password)?.[0] ?? '';
        for (const text of [password, encodeURIComponent(password)]) {
          const whole = `${scheme}://${user}:${text}@${rest}`;
          // The password is the only part with these letters.
          expect(withoutPassword(whole)).not.toContain(secret);
          try {
            const { password: found } = parseRedisUrl(whole);
            if (text === password) continue;
            read += 1;
            expect(found).toBe(password);
          } catch (error) {
            expect(messageOf(error)).not.toContain(secret);
          }
        }
      }),
      { numRuns: 1000 },
    );
    expect(read).toBeGreaterThan(50);
  });
});
