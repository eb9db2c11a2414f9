import { BlockList, isIP, type LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import { messageOf, UserError } from '../../../core/index.ts';
import { variableOf } from '../../../ground/config/config.ts';
import type { HandshakeBudget } from './handshakes.ts';
import { type LookupAll, lookupInTurn } from './name-lookups.ts';

/** Where triggers may be sent. */
export interface EndpointRules {
  /**
   * The operator's list of origins: `https://functions.example.com`, `http://10.0.0.7:8080`, or with a star for one
   * label and more: `https://*.example.com`. The port counts; without one it is the scheme's.
   */
  readonly allow: readonly string[];
  /** Whether this machine's own addresses are allowed. */
  readonly loopback: boolean;
  /**
   * Called before each new connection with the addresses of its name. Returns why the connection must not be opened;
   * undefined: it may. Default: it may.
   */
  readonly connectRefusal?: (addresses: readonly string[]) => Promise<string | undefined>;
  /** Names are resolved to addresses of this family only. Default: of both. */
  readonly family?: 4 | 6 | undefined;
  /** The owner of the URL. Name lookups of one tenant do not delay the lookups of others (`lookupInTurn`). */
  readonly tenant: string;
  /**
   * Returns the budget that the TLS handshakes of all connections of the tenant share (`connectInTurn`). Default: they
   * have none, as for a URL that the operator has configured.
   */
  readonly handshakes?: () => HandshakeBudget;
}

/**
 * The rules for a URL that the operator has configured: its own origin, and loopback if the URL itself names loopback.
 * A name that only resolves to loopback does not count.
 */
export function rulesForConfigured(url: string): EndpointRules {
  const { origin } = new URL(url);
  return { allow: [origin], loopback: namesLoopback(url), tenant: origin };
}

/** Why nothing may be sent to a URL. */
export class EndpointError extends UserError {
  readonly reason: 'EndpointInvalid' | 'EndpointHasPassword' | 'EndpointNotAllowed' | 'EndpointAddressRefused';

  constructor(reason: EndpointError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * Checks a function's URL before anything is sent there. `guardedLookup` checks the addresses of its name at each
 * connection, because the owner of the name can change them at any time.
 * @throws EndpointError
 */
export function checkEndpoint(text: string, rules: EndpointRules): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new EndpointError('EndpointInvalid', `the endpoint "${text}" is not an http:// or https:// URL`);
  }
  if (url.username || url.password) {
    throw new EndpointError('EndpointHasPassword', 'an endpoint must have no user or password');
  }
  if (!rules.allow.some((pattern) => matches(url, pattern))) {
    throw new EndpointError('EndpointNotAllowed', `the endpoint ${url.origin} is not on the operator's list`);
  }
  const host = bare(url.hostname);
  const refusal = isIP(host) ? addressRefusal(host, rules) : undefined;
  if (refusal) throw new EndpointError('EndpointAddressRefused', `the endpoint ${url.origin} is ${refusal}`);
  return url;
}

/** Whether a pattern of the operator's list names this machine. */
export function namesLoopback(pattern: string): boolean {
  if (!URL.canParse(pattern)) return false;
  const { hostname } = new URL(pattern);
  return hostname === 'localhost' || isLoopbackAddress(bare(hostname));
}

/** @throws UserError for the first of the operator's URLs that the rules forbid. */
export function checkFunctionUrls(urls: readonly string[]): void {
  try {
    for (const url of urls) checkEndpoint(url, rulesForConfigured(url));
  } catch (error) {
    throw new UserError(`${variableOf('functionUrls')} is wrong: ${messageOf(error)}.`);
  }
}

/**
 * Addresses of a name that are checked and may be connected to. A headless Service has one for each of its pods, and
 * each check takes time.
 */
const MAX_ADDRESSES = 64;

/**
 * Resolves names as the system does, for the connections of undici. It fails, so that no connection is opened, when one
 * of the first 64 addresses is not allowed, or `connectRefusal` refuses them. The other addresses are not used.
 * @param lookup Default: `lookupInTurn` for the rules' tenant.
 */
export function guardedLookup(
  rules: EndpointRules,
  lookup: LookupAll = (name, options, callback) => lookupInTurn(rules.tenant, name, options, callback),
): LookupFunction {
  const refusalNow = callbackify(async (addresses: readonly string[]) => {
    try {
      return await rules.connectRefusal?.(addresses);
    } catch (error) {
      return messageOf(error);
    }
  });
  return (hostname, options, callback) => {
    const { family } = rules;
    // Each address is checked, because a retry may use any of them.
    lookup(hostname, family === undefined ? options : { ...options, family }, (error, all) => {
      if (error) return callback(withFamily(error, family), '', 0);
      const found = all.slice(0, MAX_ADDRESSES);
      for (const { address } of found) {
        const refusal = addressRefusal(address, rules);
        if (refusal) return callback(new AddressRefusedError(`${hostname} is ${address}, ${refusal}`), '', 0);
      }
      const [first] = found;
      if (!first) return callback(new Error(`${hostname} has no address`), '', 0);
      const connect = (): void => (options.all ? callback(null, found) : callback(null, first.address, first.family));
      const addresses = found.flatMap(({ address }) => [address, ...embeddedAddresses(address)]);
      refusalNow(addresses, (_none, refusal) =>
        refusal === undefined ? connect() : callback(new AddressRefusedError(refusal), '', 0),
      );
    });
  };
}

/** Says that only one family was asked for, if the name has no address of it. */
function withFamily(error: NodeJS.ErrnoException, family: 4 | 6 | undefined): Error {
  if (family === undefined || !['ENOTFOUND', 'ENODATA'].includes(error.code ?? '')) return error;
  const why = `only IPv${family} is used, the first address family of the cluster`;
  const remedy = `the operator can name the origin in ${variableOf('allowedEndpoints')}`;
  return new Error(`${messageOf(error)}: ${why}, and ${remedy}`, { cause: error });
}

/** Nothing was sent: a name has an address that is not allowed, or `connectRefusal` has refused the connection. */
export class AddressRefusedError extends Error {
  override readonly name = 'AddressRefusedError';
}

/** Why nothing may be sent to an address; undefined: it may. Private networks are allowed, as functions run there. */
export function addressRefusal(address: string, rules: Pick<EndpointRules, 'loopback'>): string | undefined {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (NEVER.check(address, family)) {
    return 'an address that no function has (link-local, multicast, unspecified, or metadata of a cloud)';
  }
  if (isLoopbackAddress(address)) return rules.loopback ? undefined : 'a loopback address, which is not allowed here';
  // A router of NAT64 or 6to4 forwards the packets to the IPv4 address in it.
  for (const embedded of embeddedAddresses(address)) {
    const refusal = addressRefusal(embedded, rules);
    if (refusal) return `${embedded} within IPv6, ${refusal}`;
  }
  return undefined;
}

/** In any spelling, IPv4 within IPv6 included. */
function isLoopbackAddress(address: string): boolean {
  return isIP(address) !== 0 && LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * The IPv4 addresses that an IPv6 address may stand for: IPv4-mapped and -compatible (RFC 4291), IPv4-translated (RFC
 * 2765), NAT64 (RFC 6052, and RFC 8215's prefix for local use, in both forms that a network may choose), 6to4 (RFC
 * 3056), ISATAP (RFC 5214).
 */
export function embeddedAddresses(address: string): string[] {
  if (isIP(address) !== 6) return [];
  const words = wordsOf(address);
  const at = (high: number, low: number): string =>
    [high >> 8, high & 255, low >> 8, low & 255].map((byte) => String(byte)).join('.');
  const [w0 = 0, w1 = 0, w2 = 0, w3 = 0, w4 = 0, w5 = 0, w6 = 0, w7 = 0] = words;
  const isZero = (...some: number[]): boolean => some.every((word) => word === 0);
  if (isZero(w0, w1, w2, w3, w4) && (w5 === 0xffff || w5 === 0)) return [at(w6, w7)];
  if (isZero(w0, w1, w2, w3, w5) && w4 === 0xffff) return [at(w6, w7)];
  // One bit of the interface says whether the IPv4 address is unique in the world.
  if ((w4 & ~0x0200) === 0 && w5 === 0x5efe) return [at(w6, w7)];
  if (w0 === 0x64 && w1 === 0xff9b && isZero(w2, w3, w4, w5)) return [at(w6, w7)];
  if (w0 === 0x64 && w1 === 0xff9b && w2 === 1) {
    return [at(w6, w7), at(w3, ((w4 & 255) << 8) | (w5 >> 8))];
  }
  return w0 === 0x2002 ? [at(w1, w2)] : [];
}

/** The eight words of an IPv6 address. */
function wordsOf(address: string): number[] {
  // The URL parser writes all forms as one: hexadecimal, compressed once.
  const [head = '', tail] = bare(new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname).split('::');
  const parse = (part: string): number[] => (part ? part.split(':').map((word) => Number.parseInt(word, 16)) : []);
  const [before, after] = [parse(head), parse(tail ?? '')];
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after];
}

/** 169.254.169.254 is where clouds hand out a machine's credentials; 0.0.0.0 is this machine by another name. */
const NEVER = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['169.254.0.0', 16],
  ['224.0.0.0', 3],
] as const) {
  NEVER.addSubnet(network, bits, 'ipv4');
}
NEVER.addAddress('::', 'ipv6');
NEVER.addSubnet('fe80::', 10, 'ipv6');
// Site-local, which was replaced by fc00::/7; Teredo, which leads to hosts behind other NATs.
NEVER.addSubnet('fec0::', 10, 'ipv6');
NEVER.addSubnet('2001::', 32, 'ipv6');
NEVER.addSubnet('ff00::', 8, 'ipv6');
// Addresses that clouds serve to a machine outside of 169.254.0.0/16, metadata and credentials above all: AWS, Google,
// Oracle and Scaleway by IPv6; Azure, Alibaba, Oracle, Equinix Metal.
NEVER.addAddress('fd00:ec2::254', 'ipv6');
NEVER.addAddress('fd00:ec2::23', 'ipv6');
NEVER.addAddress('fd20:ce::254', 'ipv6');
NEVER.addAddress('fd00:c1::a9fe:a9fe', 'ipv6');
NEVER.addAddress('fd00:42::42', 'ipv6');
NEVER.addAddress('168.63.129.16', 'ipv4');
NEVER.addAddress('100.100.100.200', 'ipv4');
NEVER.addAddress('192.0.0.192', 'ipv4');
NEVER.addAddress('192.80.8.124', 'ipv4');

/** Whether the operator's list has the origin of a URL itself, rather than a star for it. */
export function isNamed(url: URL, allow: readonly string[]): boolean {
  return allow.some((pattern) => !pattern.includes('*') && matches(url, pattern));
}

function matches(url: URL, pattern: string): boolean {
  const [scheme, rest = ''] = pattern.split('://');
  if (!rest.startsWith('*.')) return URL.canParse(pattern) && new URL(pattern).origin === url.origin;
  const allowed = `${scheme}://star.${rest.slice(2)}`;
  if (!URL.canParse(allowed)) return false;
  const { protocol, port, hostname } = new URL(allowed);
  return url.protocol === protocol && url.port === port && url.hostname.endsWith(hostname.slice('star'.length));
}

/** `[::1]` is how a URL writes `::1`. */
function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}
