import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import { type RequestSource, sourceName } from '../../../core/index.ts';
import { isLoopback } from '../../../contract/secure-url.ts';

/** The name in a Host header, without port and the dot of the root. */
export function nameOf(header: string): string {
  return header
    .toLowerCase()
    .replace(/:[0-9]*$/, '')
    .replace(/\.$/, '');
}

/**
 * The names of headers that proxies, ingresses and networks for delivery add. Behind such a proxy, the loopback address
 * and name of a request are the proxy's own. An empty header counts, too: some proxies empty headers that they do not
 * pass on.
 */
const PROXY_HEADER = new RegExp(
  `^(${[
    'forwarded.*|x-forwarded.*|via|max-forwards|cdn-loop|proxy-.*|x-proxy.*|surrogate-.*|x-varnish',
    // The address of the client, its connection, and the request that it sent.
    '(.*-)?(client)?ip(addr(ess)?)?|(.*-)?remote-(addr|user)|x-real-.*|(x-)?ssl-.*',
    'front-end-https|x-host|x-original-.*|x-originating-.*|x-rewrite-.*|x-(url-)?scheme',
    // The user, as a login in front of the gateway names it.
    'tailscale-.*|x-auth-request-.*|x-goog-.*|x-remote-.*|x-webauth-.*',
    'cf-.*|cloudfront-.*|fly-.*|x-akamai-.*|x-amzn?-.*|x-appengine-.*|x-arr-.*|x-azure-.*|x-envoy-.*|x-vercel-.*',
  ].join('|')})$`,
);

/** Where the gateway listens, as far as it matters for requests. */
export interface Listening {
  readonly host: string;
  /** Whether it serves https itself. */
  readonly https: boolean;
  /** Whether a request from this machine needs a login, too. Default false. */
  readonly loginOnLoopback?: boolean;
}

/**
 * Whether a request needs no login because it comes from this machine: the server listens there only, the client has an
 * address of loopback, asks for a name of loopback, and no header shows a proxy in between. A proxy on this machine
 * that adds no header looks like a local client: `loginOnLoopback` is for that.
 */
export function isLocal({ host, loginOnLoopback }: Omit<Listening, 'https'>, context: Context): boolean {
  if (loginOnLoopback || !isLoopback(host) || !hasLoopbackName(context)) return false;
  return isLoopback(addressOf(context)) && ![...context.req.raw.headers.keys()].some((name) => PROXY_HEADER.test(name));
}

/** The client of a request that has not authenticated. */
export function sourceOf(context: Context): RequestSource {
  return { name: sourceName(addressOf(context)), isKnown: false };
}

/** The address of the connection, which is empty when the connection is closed. */
function addressOf(context: Context): string {
  const { incoming } = (context.env ?? {}) as Partial<HttpBindings>;
  return incoming?.socket.remoteAddress?.replace(/^::ffff:/i, '') ?? '';
}

/** Whether the browser has sent this by https. A proxy that ends TLS says so. */
export function isHttps({ https }: Pick<Listening, 'https'>, context: Context): boolean {
  return https || context.req.header('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase() === 'https';
}

/**
 * Whether a token may be entered: by https, or at a name of the browser's own machine, as `kubectl port-forward` does.
 */
export function isPrivate(listening: Listening, context: Context): boolean {
  return isHttps(listening, context) || hasLoopbackName(context);
}

function hasLoopbackName(context: Context): boolean {
  return isLoopback(nameOf(context.req.header('host') ?? ''));
}

/** Whether nothing is changed by it. */
export function isRead(context: Context): boolean {
  return ['GET', 'HEAD'].includes(context.req.method);
}

/** Whether the answer is shown to a person, and not read by a program. */
export function wantsPage(context: Context): boolean {
  return context.req.header('accept')?.includes('text/html') === true;
}

/**
 * The page that sent a request, by the browser's headers: its own origin, another one, or nothing, as programs do.
 * Browsers name it in each POST, by Sec-Fetch-Site or, at plain http, by Origin alone. A proxy that ends TLS changes
 * the scheme, so names and ports are compared: it must pass on the Host header.
 */
export function senderOf(context: Context): 'same' | 'other' | 'unknown' {
  const site = context.req.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' ? 'same' : 'other';
  const origin = context.req.header('origin');
  if (origin === undefined) return 'unknown';
  const host = context.req.header('host') ?? '';
  return URL.canParse(origin) && new URL(origin).host === host.toLowerCase() ? 'same' : 'other';
}

/** Whether the browser follows a link on a page elsewhere: it leaves strict cookies out. */
export function isLinkFromElsewhere(context: Context): boolean {
  return ['cross-site', 'same-site'].includes(context.req.header('sec-fetch-site') ?? '');
}

/** A path of this gateway with its query, to return to after the login; undefined for anything else. */
export function ownPath(text: unknown): string | undefined {
  const BASE = 'http://gateway.invalid';
  if (typeof text !== 'string' || !text.startsWith('/') || text.length > 2048 || !URL.canParse(text, BASE)) {
    return undefined;
  }
  const { origin, pathname, search } = new URL(text, BASE);
  return origin === BASE && !pathname.startsWith('//') ? pathname + search : undefined;
}
