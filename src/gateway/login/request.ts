import type { Context } from 'hono';
import { isLoopback } from '../../contract/secure-url.ts';

/** The name in a Host header, without port and the dot of the root. */
export function nameOf(header: string): string {
  return header
    .toLowerCase()
    .replace(/:[0-9]*$/, '')
    .replace(/\.$/, '');
}

/** Headers of proxies: behind one, a name of loopback is the proxy's own doing. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via'];

/** Where the gateway listens, as far as it matters for requests. */
export interface Listening {
  readonly host: string;
  /** Whether it serves https itself. */
  readonly https: boolean;
}

/** Whether a request comes from this machine: the server listens there only, and its name is one of loopback. */
export function isLocal({ host }: Pick<Listening, 'host'>, context: Context): boolean {
  return isLoopback(host) && hasLoopbackName(context) && FORWARDED.every((name) => !context.req.header(name));
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
 * What a browser says of the page that sent a request: its own origin, another one, or nothing, as programs do.
 * Browsers say it of each POST, by Sec-Fetch-Site or, at plain http, by Origin alone. A proxy that ends TLS changes
 * the scheme, so names and ports are compared: it must hand the Host header on.
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
