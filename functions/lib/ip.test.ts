import { expect, it } from 'vitest';
import { parseIp } from './ip.ts';

it.each([
  ['10.0.0.1', 'IPv4', '10.0.0.1'],
  ['010.000.0.07', 'IPv4', '10.0.0.7'],
  ['2001:DB8:0:0:0:0:0:1', 'IPv6', '2001:db8::1'],
  ['::', 'IPv6', '::'],
  ['::ffff:10.0.0.1', 'IPv4', '10.0.0.1'],
])('%s is an address of %s: %s', (text, family, written) => {
  expect(parseIp(text)).toEqual({ family, text: written });
});

it.each(['', '10.0.0', '10.0.0.256', '10.0.0.a', 'fe80::1%eth0', ':::', 'web', '1::2]/path:'])('%j is none', (text) => {
  expect(parseIp(text)).toBeUndefined();
});
