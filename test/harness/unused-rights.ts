import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { AuditedRequest } from './audit-log.ts';
import { userOf } from './identity.ts';

const ROOT = join(import.meta.dirname, '../..');

interface Manifest {
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

/**
 * The rights in `functions/NAME/rbac.yaml` that the function has not used, each as `verb resource`: `update
 * services/finalizers`. A resource `*` is used when any is.
 */
export async function unusedRights(requests: readonly AuditedRequest[], name: string): Promise<string[]> {
  const text = await readFile(join(ROOT, `functions/${name}/rbac.yaml`), 'utf8');
  const rules = parseAllDocuments(text).flatMap((document) => (document.toJS() as Manifest | null)?.rules ?? []);
  const own = requests.filter(({ user, authorized }) => user === userOf(name) && authorized);
  const used = new Set(own.flatMap(({ verb, resource }) => [`${verb} ${resource}`, `${verb} *`]));
  const granted = rules.flatMap(({ resources, verbs }) =>
    resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)),
  );
  return [...new Set(granted)].filter((right) => !used.has(right)).toSorted();
}
