import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { boundedText, groupOf, LimitedLines, type Logger, systemClock, TenantTurns } from '../../../core/index.ts';
import { type Identities, type Identity, LOCAL, LoginUnavailableError, type ObjectRead } from './identity.ts';
import { PRIVATE_HEADERS, LOGIN_PATH, loginPage, LOGOUT_PATH, onwardPage, problemPage } from './login-page.ts';
import {
  isHttps,
  isLinkFromElsewhere,
  isLocal,
  isPrivate,
  isRead,
  type Listening,
  ownPath,
  senderOf,
  sourceOf,
  wantsPage,
} from './request.ts';
import { csrfTokenOf, SESSION_MS, type Sessions } from './sessions.ts';
import type { AuditFields, LoginEnv, Visitor } from './visitor.ts';

/** Checks tokens and keeps sessions. */
export interface LoginBackend {
  /** Asked one after another about a token. */
  readonly identities: readonly Identities[];
  readonly sessions: Pick<Sessions, 'start' | 'tokenOf' | 'end'>;
}

export interface LoginOptions {
  readonly listening: Listening;
  /** Undefined while the gateway is starting. */
  readonly backend: () => LoginBackend | undefined;
  /** Where a login leads to, when nothing else was asked for. */
  readonly home: string;
  readonly logger: Logger;
  /** Writes the lines of the audit log. It must write lines of level `info`, whatever level `logger` has. */
  readonly auditLog: Pick<Logger, 'info'>;
}

/** The sender of a request. */
interface Caller {
  readonly identity: Identity;
  /** The form token is derived from it; undefined for a bearer token, which no page elsewhere can send. */
  readonly secret?: string;
  /** The session; undefined without one. */
  readonly cookie?: string;
}

/** The form of a change has a thousand keys of 60 characters at most. */
const CHANGE_LIMIT = limitOf(64);
/** A token has 16 KiB at most. Anyone may send a login. */
const LOGIN_LIMIT = limitOf(20);
/** A form of the login has three. */
const MAX_FIELDS = 16;
/** What else is behind the login, beside the dashboard. */
const BEHIND_LOGIN = /^\/(?:queues|views|functions|metrics|debug)(?:\/|$)/;
const COOKIE = 'levelhook-session';
const URLENCODED = /^application\/x-www-form-urlencoded\b/i;
const MULTIPART = /^multipart\/form-data\b/i;
const FORGED = 'this request has no proof that it comes from a page of this gateway: load the page again';
const PLAIN =
  'This gateway is reached by plain http here, so it takes no tokens: use https, or kubectl port-forward and localhost.';

/**
 * The login of everything that is not public. A request from this machine needs none. Any other request has a bearer
 * token, or the cookie of a session that began with one; the token is checked again for each request. A change needs
 * the right to its method on its path, and proof that no page elsewhere has sent it. It gives a line in the audit log.
 */
export class LoginGuard {
  readonly #options: LoginOptions;
  /** Of the forms on loopback, which have no session. A restart makes them invalid. */
  readonly #localSecret = randomBytes(32).toString('base64url');
  readonly #lines = new LimitedLines(systemClock);
  /** Of the sources whose forms are parsed. */
  readonly #turns = new TenantTurns(1);

  constructor(options: LoginOptions) {
    this.#options = options;
  }

  /**
   * Lets a request through to its handlers, with `context.var.visitor`, or answers it. It reads the body only of a
   * caller that it knows and that has the right.
   * @param audited which requests give a line in the audit log: `all` when reading is more than looking.
   */
  guard(audited: 'changes' | 'all' = 'changes'): MiddlewareHandler<LoginEnv> {
    return async (context, next) => {
      const isAudited = audited === 'all' || !isRead(context);
      const checked = await this.#check(context, isAudited).catch((error: unknown) => unavailable(context, error));
      if (checked instanceof Response) return checked;
      context.set('visitor', this.#visitorOf(context, checked));
      await next();
      for (const [name, value] of Object.entries(PRIVATE_HEADERS)) {
        if (!context.res.headers.has(name)) context.header(name, value);
      }
      if (!isAudited) return undefined;
      const { status } = context.res;
      this.#audit(context, checked.identity, {
        ...context.get('auditFields'),
        status,
        result: status < 400 ? 'done' : 'failed',
      });
      return undefined;
    };
  }

  /** The form, and the targets of the form and of the pages' button. */
  routes(): Hono {
    const app = new Hono();
    app.get(LOGIN_PATH, async (context) => {
      const to = this.#targetOf(context.req.query('to'));
      const caller = await this.#callerOf(context);
      return caller ? context.redirect(to, 303) : this.#form(context, 200, to);
    });
    app.post(LOGIN_PATH, (context) => this.#logIn(context));
    app.post(LOGOUT_PATH, (context) => this.#logOut(context));
    app.onError((error, context) => unavailable(context, error));
    return app;
  }

  /** The caller of a request that may be answered, or the answer to any other. */
  async #check(context: Context, isAudited: boolean): Promise<Caller | Response> {
    const caller = await this.#callerOf(context);
    if (!caller) return this.#unauthorized(context);
    const { identity, secret, cookie } = caller;
    const { path } = context.req;
    const needsProof = !isRead(context) && secret !== undefined;
    const refuseForged = (): Response | Promise<Response> => {
      this.#auditRefusal(context, identity, 'refused: no proof of its origin');
      return refuse(context, 403, { problem: FORGED });
    };
    if (needsProof && senderOf(context) === 'other') return refuseForged();
    const verb = isRead(context) ? 'get' : context.req.method.toLowerCase();
    if (!(await identity.may(verb, path))) {
      if (isAudited) this.#auditRefusal(context, identity, 'refused: no right');
      return refuse(context, 403, {
        problem: boundedText(`${identity.name} has no right to ${verb} ${path}`, 512),
        csrfToken: cookie === undefined ? undefined : csrfTokenOf(cookie),
      });
    }
    const tooLong = await CHANGE_LIMIT(context, async () => {});
    if (tooLong) return tooLong;
    if (needsProof && !hasProof(context, secret, (await formOf(context))['csrf'])) return refuseForged();
    return caller;
  }

  /** @throws LoginUnavailableError */
  async #callerOf(context: Context): Promise<Caller | undefined> {
    const { listening } = this.#options;
    if (isLocal(listening, context)) return { identity: LOCAL, secret: this.#localSecret };
    const bearer = bearerOf(context);
    const cookie = bearer === undefined ? this.#cookieOf(context) : undefined;
    if (bearer === undefined && cookie === undefined) return undefined;
    const backend = this.#backend();
    const token = bearer ?? (await backend.sessions.tokenOf(cookie ?? ''));
    const identity = token === undefined ? undefined : await identify(backend, token, context);
    if (!identity) return undefined;
    return cookie === undefined ? { identity } : { identity, cookie, secret: cookie };
  }

  #backend(): LoginBackend {
    const backend = this.#options.backend();
    if (!backend) throw new LoginUnavailableError('the gateway is starting');
    return backend;
  }

  #visitorOf(context: Context, { identity, secret, cookie }: Caller): Visitor {
    return {
      name: shownName(identity),
      client: identity.client,
      mayChange: (path = context.req.path) => identity.may('post', path),
      readRefusal: async (read) => ((await identity.mayRead(read)) ? undefined : lacksRead(identity, read)),
      recheck: async () => {
        try {
          return (await (await this.#callerOf(context))?.identity.may('get', context.req.path)) ?? false;
        } catch {
          return false;
        }
      },
      csrfToken: secret === undefined ? undefined : csrfTokenOf(secret),
      canLogOut: cookie !== undefined,
    };
  }

  #unauthorized(context: Context): Response | Promise<Response> {
    context.header('www-authenticate', 'Bearer');
    const cookie = this.#cookieOf(context);
    if (!wantsPage(context) || bearerOf(context) !== undefined) {
      return context.json({ error: 'the bearer token is missing, wrong or no longer valid' }, 401);
    }
    const { pathname, search } = new URL(context.req.url);
    const to = isRead(context) ? this.#targetOf(pathname + search) : this.#options.home;
    if (isRead(context) && cookie === undefined && isLinkFromElsewhere(context)) return onwardPage(context, to);
    if (!isRead(context)) return this.#form(context, 401, to, 'The session has ended, and nothing was changed.');
    return this.#form(context, 401, to, cookie === undefined ? undefined : 'The session has ended.');
  }

  #form(context: Context, status: 200 | 401 | 403, to: string, problem?: string): Response | Promise<Response> {
    if (!isPrivate(this.#options.listening, context)) return problemPage(context, 403, { problem: PLAIN });
    return loginPage(context, status, { to, ...(problem === undefined ? {} : { problem }) });
  }

  async #logIn(context: Context): Promise<Response> {
    const { home, listening, logger } = this.#options;
    if (senderOf(context) !== 'same') return refuse(context, 403, { problem: FORGED });
    if (isLocal(listening, context)) return context.redirect(this.#options.home, 303);
    if (!isPrivate(listening, context)) return refuse(context, 403, { problem: PLAIN });
    const form = await this.#smallFormOf(context);
    if (form instanceof Response) return form;
    const to = this.#targetOf(form.get('to'));
    const token = form.get('token')?.trim() ?? '';
    const backend = this.#backend();
    const identity = TOKEN.test(token) ? await identify(backend, token, context) : undefined;
    if (!identity) {
      this.#lines.write('login', (admitted) => logger.info({ ...admitted }, 'a login was refused'));
      return this.#form(context, 401, to, 'This token is not valid here.');
    }
    // Only sessions that can be used take memory of Redis, and each pod may get other paths, such as /version.
    const { pathname } = new URL(to, context.req.url);
    const path = pathname.startsWith(`${home}/`) || BEHIND_LOGIN.test(pathname) ? pathname : home;
    if (!(await identity.may('get', path))) {
      return this.#form(context, 403, to, boundedText(`${identity.name} has no right to get ${path}`, 512));
    }
    const before = this.#cookieOf(context);
    if (before !== undefined) await backend.sessions.end(before);
    this.#setCookie(context, await backend.sessions.start(`${identity.from}:${identity.name}`, token));
    this.#audit(context, identity, { action: 'login', result: 'done' });
    return context.redirect(to, 303);
  }

  async #logOut(context: Context): Promise<Response> {
    const cookie = this.#cookieOf(context);
    // The cookie of no session has nothing that a page elsewhere could end.
    if (cookie !== undefined && (await this.#backend().sessions.tokenOf(cookie)) !== undefined) {
      if (senderOf(context) === 'other') return refuse(context, 403, { problem: FORGED });
      const form = await this.#smallFormOf(context);
      if (form instanceof Response) return form;
      if (!hasProof(context, cookie, form.get('csrf') ?? undefined)) return refuse(context, 403, { problem: FORGED });
      await this.#backend().sessions.end(cookie);
    }
    const https = isHttps(this.#options.listening, context);
    deleteCookie(context, COOKIE, { secure: https, ...(https ? { prefix: 'host' } : {}) });
    return context.redirect(LOGIN_PATH, 303);
  }

  /**
   * The fields of a form that anyone may have sent, or the answer to a form that is too long. Only the encoding that
   * the pages' forms have is read, since the parser of the other one takes 50 ms for 64 KiB. The forms of the sources
   * are parsed in turn, with everything else that waits for this thread in between.
   */
  async #smallFormOf(context: Context): Promise<URLSearchParams | Response> {
    if (!URLENCODED.test(context.req.header('content-type') ?? '')) return new URLSearchParams();
    const tooLong = await LOGIN_LIMIT(context, async () => {});
    if (tooLong) return tooLong;
    const text = await context.req.text().catch(() => '');
    if (text.split('&', MAX_FIELDS + 1).length > MAX_FIELDS) {
      return context.json({ error: `the form has more than ${MAX_FIELDS} fields` }, 413);
    }
    return this.#turns.run(sourceOf(context).name, async () => {
      await nextTurn();
      return new URLSearchParams(text);
    });
  }

  /** A cookie with this prefix cannot be set by another host, or without https. */
  #cookieOf(context: Context): string | undefined {
    return isHttps(this.#options.listening, context) ? getCookie(context, COOKIE, 'host') : getCookie(context, COOKIE);
  }

  #setCookie(context: Context, value: string): void {
    const attributes = { httpOnly: true, sameSite: 'Strict', maxAge: SESSION_MS / 1000 } as const;
    if (isHttps(this.#options.listening, context)) setCookie(context, COOKIE, value, { ...attributes, prefix: 'host' });
    else setCookie(context, COOKIE, value, attributes);
  }

  #targetOf(text: unknown): string {
    return ownPath(text) ?? this.#options.home;
  }

  /**
   * Limited by client: each pod of the cluster has a token that is valid here, and a page elsewhere may send any number
   * of changes to a gateway on the machine of its reader.
   */
  #auditRefusal(context: Context, identity: Identity, result: string): void {
    this.#lines.write(`refused ${identity.from} ${identity.client}`, (more) =>
      this.#audit(context, identity, { result, ...more }),
    );
  }

  #audit(context: Context, identity: Identity, fields: AuditFields): void {
    const { method, path } = context.req;
    const who = { user: shownName(identity), from: identity.from };
    this.#options.auditLog.info(
      { ...fields, audit: true, ...who, method, path: boundedText(path, 512) },
      isRead(context) ? 'a read' : 'a change',
    );
  }
}

const TOKEN = /^[\x21-\x7e]+$/;

function bearerOf(context: Context): string | undefined {
  return /^Bearer +([\x21-\x7e]+)$/i.exec(context.req.header('authorization')?.trim() ?? '')?.[1];
}

async function identify({ identities }: LoginBackend, token: string, context: Context): Promise<Identity | undefined> {
  const source = sourceOf(context);
  for (const each of identities) {
    const identity = await each.identify(token, source);
    if (identity) return identity;
  }
  return undefined;
}

/**
 * Whether a change comes from a page whose session goes on, or from none. A browser sends JSON or a header of ours
 * across origins only after it has asked, and the gateway never agrees. A form needs its token.
 * @param csrf that of the form.
 */
function hasProof(context: Context, secret: string, csrf: unknown): boolean {
  const given = context.req.header('x-csrf-token') ?? csrf;
  if (given !== undefined) return typeof given === 'string' && isEqual(given, csrfTokenOf(secret));
  return /^application\/json\b/i.test(context.req.header('content-type') ?? '');
}

/** The fields of a form of a known caller; none when the body is something else. */
async function formOf(context: Context): Promise<Record<string, unknown>> {
  const type = context.req.header('content-type') ?? '';
  return URLENCODED.test(type) || MULTIPART.test(type) ? context.req.parseBody().catch(() => ({})) : {};
}

function limitOf(kibibytes: number): MiddlewareHandler {
  return bodyLimit({
    maxSize: kibibytes * 1024,
    onError: (context) => context.json({ error: `the body is over ${kibibytes} KiB` }, 413),
  });
}

/** Hashes are of one length. */
function isEqual(a: string, b: string): boolean {
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}

function shownName({ name }: Identity): string {
  return boundedText(name, 256);
}

/** `ann has no right to list deployments.apps in the namespace shop: RBAC must grant it.` */
function lacksRead(identity: Identity, { resource, namespace, name }: ObjectRead): string {
  const group = groupOf(resource);
  const kind = group === '' ? resource.plural : `${resource.plural}.${group}`;
  const isEverywhere = resource.namespaced && namespace === undefined;
  const where = !resource.namespaced ? '' : isEverywhere ? ' in all namespaces' : ` in the namespace ${namespace}`;
  const what = `${name === undefined ? 'list' : 'get'} ${kind}${where}`;
  const remedy = isEverywhere ? 'RBAC must grant it, or name a namespace' : 'RBAC must grant it';
  return boundedText(`${shownName(identity)} has no right to ${what}: ${remedy}.`, 512);
}

function refuse(
  context: Context,
  status: 403 | 503,
  shown: { readonly problem: string; readonly csrfToken?: string | undefined },
): Response | Promise<Response> {
  return wantsPage(context) ? problemPage(context, status, shown) : context.json({ error: shown.problem }, status);
}

function unavailable(context: Context, error: unknown): Response | Promise<Response> {
  if (!(error instanceof LoginUnavailableError)) throw error;
  context.header('retry-after', '1');
  return refuse(context, 503, { problem: error.message });
}
