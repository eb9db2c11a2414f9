import type { Context } from 'hono';

/** Who has sent a request that the login let through. */
export interface Visitor {
  readonly name: string;
  mayChange(path?: string): Promise<boolean>;
  recheck(): Promise<boolean>;
  readonly csrfToken: string | undefined;
  readonly canLogOut: boolean;
}

export type AuditFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface LoginEnv {
  Variables: { visitor: Visitor; auditFields?: AuditFields };
}

/** Adds fields to the line of this request in the audit log. */
export function audit(context: Context, fields: AuditFields): void {
  context.set('auditFields', fields);
}

export const LOCAL_VISITOR: Visitor = {
  name: 'local',
  mayChange: async () => true,
  recheck: async () => true,
  csrfToken: undefined,
  canLogOut: false,
};
