import { describe, expect, it } from 'vitest';
import { UserError } from '../../../core/index.ts';
import {
  AddressRefusedError,
  checkEndpoint,
  type EndpointRules,
  guardedLookup,
  rulesForConfigured,
} from './endpoint-rules.ts';
import type { LookupAll } from './name-lookups.ts';

const outside: EndpointRules = {
  allow: ['https://*.example.com', 'http://fn:8080', 'http://10.0.0.7'],
  loopback: false,
  tenant: 'shop.',
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
    ['ftp://fn:8080', /not an http/],
    ['fn:8080', /not an http/],
    ['', /not an http/],
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
    expect(() => checkEndpoint(url, { ...outside, allow })).toThrow(/loopback/);
    expect(checkEndpoint(url, { ...outside, allow, loopback: true }).origin).toBe(allow[0]);
    expect(rulesForConfigured(url)).toEqual({ allow, loopback: true, tenant: allow[0] });
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
    'http://[fd00:ec2::23]',
    'http://[fd00:42::42]',
    'http://168.63.129.16',
    'http://[::ffff:168.63.129.16]',
    'http://100.100.100.200',
    'http://192.0.0.192',
    'http://192.80.8.124',
  ])('never allows %s', (url) => {
    expect(() => checkEndpoint(url, rulesForConfigured(url))).toThrow(/no function has/);
  });

  it('takes the names of configured URLs as they are', () => {
    const [here, there] = ['http://localhost:8080', 'http://fn.svc:8080'];
    expect(rulesForConfigured(`${here}/x`)).toEqual({ allow: [here], loopback: true, tenant: here });
    expect(rulesForConfigured(there)).toEqual({ allow: [there], loopback: false, tenant: there });
  });
});

it('asks about each address of a name before a connection, and about an IPv4 address within IPv6', async () => {
  const asked: (readonly string[])[] = [];
  const connectRefusal = async (addresses: readonly string[]) => (asked.push(addresses), 'it is of another');
  const system: LookupAll = (_name, _options, callback) =>
    callback(null, [
      { address: '10.0.0.7', family: 4 },
      { address: '::ffff:10.0.0.8', family: 6 },
    ]);
  const refused = new Promise((done) =>
    guardedLookup({ ...outside, connectRefusal }, system)('fn', { all: true }, (error) => done(error?.message)),
  );
  expect(await refused).toBe('it is of another');
  expect(asked).toEqual([['10.0.0.7', '::ffff:10.0.0.8', '10.0.0.8']]);
});

describe('an address that a name resolves to', () => {
  const connects = (address: string): Promise<boolean> => {
    const found = [{ address, family: address.includes(':') ? 6 : 4 }];
    const system: LookupAll = (_name, _options, callback) => callback(null, found);
    return new Promise((done) => guardedLookup(outside, system)('fn', { all: true }, (error) => done(!error)));
  };

  it.each([
    ['IPv4-mapped', '::ffff:169.254.169.254'],
    ['IPv4-mapped in hexadecimal', '::ffff:a9fe:a9fe'],
    ['IPv4-mapped loopback', '::ffff:7f00:1'],
    ['IPv4-compatible loopback', '::7f00:1'],
    ['IPv4-translated', '::ffff:0:169.254.169.254'],
    ['IPv4-translated loopback', '::ffff:0:7f00:1'],
    ['ISATAP', 'fd12::5efe:169.254.169.254'],
    ['ISATAP with an address that is unique', '2001:db8::200:5efe:a9fe:a9fe'],
    ['NAT64', '64:ff9b::169.254.169.254'],
    ['NAT64 of loopback', '64:ff9b::7f00:1'],
    ['NAT64 of this network', '64:ff9b::'],
    ['local NAT64 with a prefix of 96 bits', '64:ff9b:1:2:3:4:169.254.169.254'],
    ['local NAT64 with a prefix of 48 bits', '64:ff9b:1:a9fe:a9:fe00::'],
    ['6to4', '2002:a9fe:a9fe::1'],
    ['6to4 of loopback', '2002:7f00:1::'],
    ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
    ['site-local', 'fec0::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['metadata of AWS', 'fd00:ec2::254'],
    ['metadata of Google', 'fd20:ce::254'],
    ['metadata of Alibaba', '100.100.100.200'],
    ['metadata of Alibaba by NAT64', '64:ff9b::6464:64c8'],
    ['metadata of Oracle', '192.0.0.192'],
    ['metadata of Oracle, IPv4-mapped', '::ffff:192.0.0.192'],
  ])('is refused: %s, %s', async (_what, address) => expect(await connects(address)).toBe(false));

  it.each([
    '10.0.0.7',
    '100.100.100.201',
    '100.64.0.1',
    '192.0.0.1',
    '::ffff:10.0.0.7',
    '::ffff:0:10.0.0.7',
    'fd12::5efe:10.0.0.7',
    'fd12::100:5efe:169.254.169.254',
    '64:ff9b::10.0.0.7',
    '64:ff9b:1:a00:7:a00:10.0.0.7',
    '2002:a00:7::1',
    '2001:db8::1',
    '2001:1::1',
    '2606:4700::1111',
    'fd00:ec2::253',
    'fd12::1',
  ])('is allowed: %s', async (address) => expect(await connects(address)).toBe(true));
});

describe('guardedLookup', () => {
  const resolve = (addresses: string[], all: boolean, rules = outside): Promise<unknown> => {
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    const system: LookupAll = (_name, _options, callback) => callback(null, found);
    return new Promise((done, failed) => {
      guardedLookup(rules, system)('fn', { all }, (error, address, family) => {
        if (error) failed(error);
        else done(all ? address : { address, family });
      });
    });
  };

  it('looks at 64 addresses of a name at most, and gives no other', async () => {
    const pods = Array.from({ length: 1000 }, (_, at) => `10.1.${at >> 8}.${at & 255}`);
    const asked: (readonly string[])[] = [];
    const connectRefusal = async (addresses: readonly string[]): Promise<undefined> => void asked.push(addresses);
    const found = await resolve(pods, true, { ...outside, connectRefusal });
    const first = pods.slice(0, 64);
    expect(found).toEqual(first.map((address) => ({ address, family: 4 })));
    expect(asked).toEqual([first]);
  });

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
