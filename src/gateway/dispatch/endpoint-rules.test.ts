import type { lookup } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { UserError } from '../../core/index.ts';
import {
  AddressRefusedError,
  checkEndpoint,
  type EndpointRules,
  guardedLookup,
  rulesForConfigured,
} from './endpoint-rules.ts';

const outside: EndpointRules = {
  allow: ['https://*.example.com', 'http://fn:8080', 'http://10.0.0.7'],
  loopback: false,
};

describe('checkEndpoint', () => {
  it.each([
    'https://fn.example.com/path?x=1',
    'https://a.b.example.com',
    'https://fn.example.com:443/',
    'http://fn:8080/a',
    'http://10.0.0.7/a',
  ])('allows %s', (url) => {
    expect(checkEndpoint(url, outside).href).toBe(new URL(url).href);
  });

  it.each<[string, RegExp]>([
    ['http://fn.example.com', /not on the operator's list/],
    ['https://fn.example.com:444', /not on the operator's list/],
    ['https://example.com', /not on the operator's list/],
    ['https://fn.example.com.evil.org', /not on the operator's list/],
    ['https://fnexample.com', /not on the operator's list/],
    ['http://fn:8081', /not on the operator's list/],
    ['http://fn', /not on the operator's list/],
    ['http://10.0.0.8', /not on the operator's list/],
    ['http://user:password@fn:8080', /no user or password/],
    ['ftp://fn:8080', /no http/],
    ['fn:8080', /no http/],
    ['', /no http/],
  ])('refuses %s', (url, reason) => {
    expect(() => checkEndpoint(url, outside)).toThrow(UserError);
    expect(() => checkEndpoint(url, outside)).toThrow(reason);
  });

  it.each([
    'http://127.0.0.1',
    'http://127.8.8.8:1',
    // All of them ways to write 127.0.0.1.
    'http://2130706433',
    'http://0x7f.1',
    'http://[::1]:8080',
    'http://[::ffff:127.0.0.1]',
  ])('refuses the loopback address %s on a list, unless loopback is allowed', (url) => {
    const allow = [new URL(url).origin];
    expect(() => checkEndpoint(url, { allow, loopback: false })).toThrow(/loopback/);
    expect(checkEndpoint(url, { allow, loopback: true }).origin).toBe(allow[0]);
    expect(rulesForConfigured(url)).toEqual({ allow, loopback: true });
  });

  it.each([
    'http://0.0.0.0',
    'http://169.254.169.254',
    'http://[::ffff:169.254.169.254]',
    'http://[fe80::1]',
    'http://[::]',
    'http://224.0.0.1',
    'http://255.255.255.255',
    'http://[fd00:ec2::254]',
  ])('never allows %s', (url) => {
    expect(() => checkEndpoint(url, rulesForConfigured(url))).toThrow(/no function has/);
  });

  it('takes the names of configured URLs as they are', () => {
    expect(rulesForConfigured('http://localhost:8080/x')).toEqual({ allow: ['http://localhost:8080'], loopback: true });
    expect(rulesForConfigured('http://fn.svc:8080')).toEqual({ allow: ['http://fn.svc:8080'], loopback: false });
  });
});

describe('guardedLookup', () => {
  const resolve = (addresses: string[], all: boolean, rules = outside): Promise<unknown> => {
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    const system = ((_name: string, _options: object, callback: (error: null, found: object[]) => void) =>
      callback(null, found)) as unknown as typeof lookup;
    return new Promise((done, failed) => {
      guardedLookup(rules, system)('fn', { all }, (error, address, family) => {
        if (error) failed(error);
        else done(all ? address : { address, family });
      });
    });
  };

  it('gives what was found, one or all', async () => {
    expect(await resolve(['10.0.0.7', 'fd12::1'], false)).toEqual({ address: '10.0.0.7', family: 4 });
    expect(await resolve(['10.0.0.7', 'fd12::1'], true)).toEqual([
      { address: '10.0.0.7', family: 4 },
      { address: 'fd12::1', family: 6 },
    ]);
  });

  it.each([['127.0.0.1'], ['169.254.169.254'], ['::1'], ['::ffff:127.0.0.1'], ['10.0.0.7', '127.0.0.1'], []])(
    'refuses %s %s',
    async (...addresses) => {
      await expect(resolve(addresses.filter(Boolean), true)).rejects.toThrow();
      await expect(resolve(addresses.filter(Boolean), false)).rejects.toThrow();
    },
  );

  it('says which name, which address and why', async () => {
    const error: unknown = await resolve(['127.0.0.1'], true).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AddressRefusedError);
    expect(String(error)).toContain('fn is 127.0.0.1, a loopback address, which is not allowed here');
    expect(await resolve(['127.0.0.1'], true, { ...outside, loopback: true })).toHaveLength(1);
  });
});
