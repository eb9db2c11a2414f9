import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A request as the apiserver's audit log has it. */
export interface AuditedRequest {
  readonly user: string;
  /** `create`, `update`, `patch`, `delete`, `deletecollection`; `get`, `list`, `watch`. */
  readonly verb: string;
  /** '' for the core group. */
  readonly group: string;
  /** With its subresource: `replicasets/status`. */
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Undefined for a list, and for a create whose name the apiserver makes. */
  readonly name: string | undefined;
  readonly query: URLSearchParams;
  readonly code: number;
  /** Why it failed; '' when it did not. */
  readonly message: string;
  /** False when RBAC refused it; a 403 may also come from admission: a quota, a namespace that is being deleted. */
  readonly authorized: boolean;
}

/** Whether it asks for all objects: a list that is not one of a single object, or a watch that begins with a list. */
export function isFullList({ verb, query }: AuditedRequest): boolean {
  return (verb === 'list' && query.get('limit') !== '1') || (verb === 'watch' && query.has('sendInitialEvents'));
}

interface AuditEvent {
  stage: string;
  verb: string;
  user: { username: string };
  requestURI: string;
  objectRef?: { apiGroup?: string; resource?: string; subresource?: string; namespace?: string; name?: string };
  responseStatus?: { code?: number; message?: string };
  annotations?: Record<string, string>;
}

const READS: ReadonlySet<string> = new Set(['get', 'list', 'watch']);

export function isWrite({ verb }: AuditedRequest): boolean {
  return !READS.has(verb);
}

/** What an apiserver writes down of the requests of some users: who, what, and with which answer; no bodies. */
export class AuditLog {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** `audited` is the selector of the policy's rule: users, or groups of users. Others are not in the log. */
  static async create(audited: { users: readonly string[] } | { userGroups: readonly string[] }): Promise<AuditLog> {
    const log = new AuditLog(await mkdtemp(join(tmpdir(), 'levelhook-audit-')));
    const policy = {
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [{ level: 'Metadata', ...audited }, { level: 'None' }],
    };
    await writeFile(log.#policy, JSON.stringify(policy));
    return log;
  }

  /** For the apiserver that is to keep it. */
  get apiserverArguments(): string[] {
    return [`--audit-policy-file=${this.#policy}`, `--audit-log-path=${this.#log}`];
  }

  /** All so far, in order; watches from when they were opened. */
  async requests(): Promise<AuditedRequest[]> {
    const text = await readFile(this.#log, 'utf8').catch(() => '');
    // The last line may be half written, by an apiserver that still runs.
    const lines = text.split('\n').slice(0, -1);
    const events = lines.map((line) => JSON.parse(line) as AuditEvent);
    return events.filter(countsOnce).map(({ user, verb, requestURI, objectRef, responseStatus, annotations }) => ({
      user: user.username,
      verb,
      group: objectRef?.apiGroup ?? '',
      resource: [objectRef?.resource ?? '', objectRef?.subresource].filter(Boolean).join('/'),
      namespace: objectRef?.namespace,
      name: objectRef?.name,
      query: new URL(requestURI, 'https://apiserver').searchParams,
      code: responseStatus?.code ?? 0,
      message: responseStatus?.message ?? '',
      authorized: annotations?.['authorization.k8s.io/decision'] !== 'forbid',
    }));
  }

  async remove(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }

  get #policy(): string {
    return join(this.#directory, 'policy.json');
  }

  get #log(): string {
    return join(this.#directory, 'audit.log');
  }
}

/** A watch is written down when it opens and when it ends: take the first of those that opened. */
function countsOnce({ verb, stage, responseStatus }: AuditEvent): boolean {
  if (verb !== 'watch') return stage === 'ResponseComplete';
  return stage === 'ResponseStarted' || (responseStatus?.code ?? 0) >= 400;
}
