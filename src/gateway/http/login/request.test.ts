import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { isLocal, isPrivate, ownPath, senderOf } from './request.ts';

/** The answer of a function about a request with these headers. */
async function asked<Answer>(
  ask: (context: Parameters<typeof senderOf>[0]) => Answer,
  headers: object,
  remoteAddress = '127.0.0.1',
) {
  let answer: Answer | undefined;
  const app = new Hono().all('*', (context) => {
    answer = ask(context);
    return context.text('');
  });
  const sent = { headers: { host: 'gateway:8787', ...headers } };
  await app.request('http://gateway/', sent, { incoming: { socket: { remoteAddress } } });
  return answer;
}

describe('a path to return to', () => {
  it.each(['/', '/dashboard', '/dashboard/keys?filter=a%2Fb&x=1', '/a b'])('may be %s', (path) => {
    expect(ownPath(path)).toBe(path.replace(' ', '%20'));
  });

  it.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '/\t/evil.example/',
    '\\\\evil.example',
    '/.//evil.example/',
    'javascript:alert(1)',
    'dashboard',
    '',
    `/${'x'.repeat(3000)}`,
    undefined,
    7,
  ])('is not %j', (text) => expect(ownPath(text)).toBeUndefined());
});

describe('the sender of a request', () => {
  it.each([
    [{ 'sec-fetch-site': 'same-origin' }, 'same'],
    [{ 'sec-fetch-site': 'same-origin', origin: 'https://gateway:8787' }, 'same'],
    [{ 'sec-fetch-site': 'same-site', origin: 'https://gateway:8787' }, 'other'],
    [{ 'sec-fetch-site': 'cross-site' }, 'other'],
    [{ 'sec-fetch-site': 'none' }, 'other'],
    [{ 'sec-fetch-site': '' }, 'other'],
    [{ origin: 'http://gateway:8787' }, 'same'],
    [{ origin: 'https://gateway:8787' }, 'same'],
    [{ origin: 'http://gateway:8788' }, 'other'],
    [{ origin: 'http://gateway' }, 'other'],
    [{ origin: 'http://gateway.evil.example:8787' }, 'other'],
    [{ origin: 'null' }, 'other'],
    [{}, 'unknown'],
  ])('with %j is %s', async (headers, sender) => {
    expect(await asked(senderOf, headers)).toBe(sender);
  });
});

describe('a request from this machine', () => {
  it.each([
    ['127.0.0.1', { host: 'localhost:8787' }, true],
    ['localhost', { host: '127.0.0.1' }, true],
    ['127.0.0.1', { host: 'gateway.example.com' }, false],
    ['127.0.0.1', { host: 'localhost:8787', 'x-forwarded-for': '10.0.0.1' }, false],
    ['127.0.0.1', { host: 'localhost:8787', forwarded: 'for=10.0.0.1' }, false],
    ['127.0.0.1', { host: 'localhost:8787', via: '1.1 proxy' }, false],
    ['0.0.0.0', { host: 'localhost:8787' }, false],
    ['::', { host: '[::1]:8787' }, false],
  ])('at a server on %s with %j: %s', async (host, headers, local) => {
    expect(await asked((context) => isLocal({ host }, context), headers)).toBe(local);
  });

  it.each([
    ['127.0.0.1', true],
    ['127.8.7.6', true],
    ['::1', true],
    ['::ffff:127.0.0.1', true],
    ['10.0.0.1', false],
    ['::ffff:10.0.0.1', false],
    ['', false],
  ])('from the address %j: %s', async (address, local) => {
    const isAsked = asked((context) => isLocal({ host: '127.0.0.1' }, context), { host: 'localhost' }, address);
    expect(await isAsked).toBe(local);
  });

  it.each([
    'CDN-Src-IP',
    'CF-Connecting-IP',
    'CF-Ray',
    'Client-IP',
    'Fastly-Client-IP',
    'Forwarded',
    'Front-End-Https',
    'Remote-User',
    'Surrogate-Capability',
    'Tailscale-User-Login',
    'True-Client-IP',
    'Via',
    'X-Akamai-Edgescape',
    'X-Amzn-Trace-Id',
    'X-Auth-Request-User',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'X-Envoy-External-Address',
    'X-Forwarded',
    'X-Forwarded-For',
    'X-Forwarded-Port',
    'X-Goog-Authenticated-User-Email',
    'X-Host',
    'X-NF-Client-Connection-IP',
    'X-Original-Forwarded-For',
    'X-Originating-IP',
    'X-Real-IP',
    'X-Real-Port',
    'X-Remote-User',
    'X-Rewrite-URL',
    'X-Scheme',
    'X-SSL-Client-Verify',
    'X-Sucuri-ClientIP',
    'X-Varnish',
    'X-WebAuth-User',
  ])('with a header %s, filled or empty, is none', async (name) => {
    for (const value of ['', '127.0.0.1']) {
      const headers = { host: 'localhost:8787', [name]: value };
      expect(await asked((context) => isLocal({ host: '127.0.0.1' }, context), headers)).toBe(false);
    }
  });

  it('with the headers of browsers and of programs is one', async () => {
    const headers = {
      host: 'localhost:8787',
      accept: '*/*',
      'accept-language': 'en',
      'cache-control': 'no-cache',
      connection: 'close',
      cookie: 'a=b',
      origin: 'http://localhost:8787',
      referer: 'http://localhost:8787/dashboard',
      'sec-fetch-site': 'same-origin',
      'sec-ch-ua-platform': 'Linux',
      traceparent: '00-1-2-01',
      'upgrade-insecure-requests': '1',
      'user-agent': 'curl/8',
      'x-csrf-token': 'x',
      'x-requested-with': 'fetch',
    };
    expect(await asked((context) => isLocal({ host: '127.0.0.1' }, context), headers)).toBe(true);
  });

  it('is none where the setting asks for a login on loopback', async () => {
    const listening = { host: '127.0.0.1', loginOnLoopback: true };
    expect(await asked((context) => isLocal(listening, context), { host: 'localhost:8787' })).toBe(false);
  });
});

it.each([
  [false, {}, false],
  [true, {}, true],
  [false, { 'x-forwarded-proto': 'https' }, true],
  [false, { 'x-forwarded-proto': 'https, http' }, true],
  [false, { 'x-forwarded-proto': 'http, https' }, false],
  [false, { host: 'localhost:8787' }, true],
  [false, { host: 'localhost.evil.example' }, false],
])('a token may be entered at a server with https %s and %j: %s', async (https, headers, may) => {
  expect(await asked((context) => isPrivate({ host: '0.0.0.0', https }, context), headers)).toBe(may);
});
