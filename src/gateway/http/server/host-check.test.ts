import { describe, expect, it } from 'vitest';
import { hostCheck } from './host-check.ts';

const REBOUND = [
  'rebound.example.com',
  'rebound.example.com:8787',
  'localhost.example.com',
  '127.0.0.1.example.com',
  '',
];

describe('the Host check on loopback', () => {
  const passes = hostCheck('127.0.0.1', ['gateway.example.com']);

  it.each(['127.0.0.1', '127.0.0.1:8787', 'localhost', 'LOCALHOST:80', '[::1]:8787', 'gateway.example.com:443'])(
    'answers to %s',
    (host) => expect(passes(host)).toBe(true),
  );

  it.each([...REBOUND, '10.0.0.7', '[fd00::1]', 'gateway', 'gateway.tenant.svc', 'other.example.com'])(
    'does not answer to "%s"',
    (host) => expect(passes(host)).toBe(false),
  );
});

describe('the Host check on an address of the network', () => {
  const passes = hostCheck('0.0.0.0', ['Gateway.Example.com']);

  it.each([
    ['the IP of its pod, as kubelet and Prometheus ask', '10.244.1.7:8787'],
    ['an IPv6 address', '[fd00:10:244::7]:8787'],
    ['its Service', 'levelhook.tools.svc'],
    ['its Service by its full name', 'levelhook.tools.svc.cluster.local:8787'],
    ['its Service by its short name', 'levelhook'],
    ['a port forwarded to this machine', 'localhost:8787'],
    ['a name that the operator allows', 'gateway.example.com.'],
  ])('answers to %s', (_what, host) => expect(passes(host)).toBe(true));

  it.each(['rebound.example.com', '10.0.0.7.example.com', 'x.svc.example.com', 'levelhook.tools', '1.2.3.4.5', ''])(
    'does not answer to "%s"',
    (host) => expect(passes(host)).toBe(false),
  );
});
