import { describe, expect, it } from 'vitest';
import { isLoopback, isSecureUrl } from './secure-url.ts';

describe('loopback', () => {
  it.each(['localhost', '127.0.0.1', '127.8.8.8', '::1', '[::1]'])('is %s', (host) =>
    expect(isLoopback(host)).toBe(true),
  );

  it.each(['', 'localhost.example.com', '127.0.0.1.example.com', '127.0.0', '128.0.0.1', '::', '[::2]', '0.0.0.0'])(
    'is not "%s"',
    (host) => expect(isLoopback(host)).toBe(false),
  );
});

it.each([
  ['https://gateway.example.com/cache', true],
  ['http://127.0.0.1:8787/cache', true],
  ['http://[::1]:8787/cache', true],
  ['http://gateway.example.com/cache', false],
  ['ftp://localhost/cache', false],
])('a token may be sent to %s: %s', (url, expected) => expect(isSecureUrl(url)).toBe(expected));
