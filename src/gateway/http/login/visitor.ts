import type { Context } from 'hono';
import type { Identity, ObjectRead } from './identity.ts';

/** Who has sent a request that the login let through. */
export interface Visitor {
  /**
   * `local` on loopback, the name of a static token, or a Kubernetes user. One line of at most 256 characters, which
   * others may have chosen: pages show it as text.
   */
  readonly name: string;
  /** Who pays for what the visitor asks for. */
  readonly client: Identity['client'];
  /**
   * Whether this visitor may POST to a path, so that a page shows a button. The login checks each POST again.
   * @param path Default: that of the request.
   * @throws LoginUnavailableError
   */
  mayChange(path?: string): Promise<boolean>;
  /**
   * Why this visitor may not see these objects, in one sentence that names the missing right; undefined when the
   * visitor may. The right to a page is none to the objects that it shows.
   * @throws LoginUnavailableError
   */
  readRefusal(read: ObjectRead): Promise<string | undefined>;
  /**
   * Whether this request would be let through now. An answer that goes on for a long time asks every ten seconds and
   * ends at false. Never rejects: false also while the login cannot be checked.
   */
  recheck(): Promise<boolean>;
  /** For the field `csrf` of each form. Undefined for a bearer token, which needs none. */
  readonly csrfToken: string | undefined;
  /** Whether there is a session that `POST /logout` ends. */
  readonly canLogOut: boolean;
}

/** A change, for its line in the audit log: `{controller, action, count}`. Few and small fields. */
export type AuditFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Hono's environment of the handlers behind the login. */
export interface LoginEnv {
  Variables: {
    visitor: Visitor;
    auditFields?: AuditFields;
  };
}

/** Adds fields to the line that the login writes into the audit log after this request. */
export function audit(context: Context, fields: AuditFields): void {
  const before = context.get('auditFields') as AuditFields | undefined;
  context.set('auditFields', { ...before, ...fields });
}
