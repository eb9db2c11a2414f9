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

const OWNER_REFERENCES =
  'asked for by admission (OwnerReferencesPermissionEnforcement, off by default) for owner references that block';
const EVENTS = 'Events of failures, and their repetition';

/**
 * Rights that ten minutes of random load may not use, by function, and what the function needs them for, by reading its
 * code. The list was made from what one such run left unused: it shows that no other right is idle, and not that each
 * of these is needed.
 */
export const RARELY_USED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  replicaset: {
    'patch pods': 'adoption and release of pods',
    'update replicasets/finalizers': OWNER_REFERENCES,
    'create events': EVENTS,
    'patch events': EVENTS,
  },
  deployment: {
    'get deployments': 'the live look before an adoption',
    'get replicasets': 'the look at a ReplicaSet whose name is taken',
    'patch replicasets': 'adoption and release of ReplicaSets',
    'update deployments/finalizers': OWNER_REFERENCES,
    'create events': EVENTS,
    'patch events': EVENTS,
  },
  endpointslice: {
    'delete endpointslices': 'slices without endpoints, once there is more than one',
    'update services/finalizers': OWNER_REFERENCES,
    'create events': EVENTS,
    'patch events': EVENTS,
  },
  endpoints: {
    'delete endpoints': 'Endpoints of a deleted Service',
    'create events': EVENTS,
    'patch events': EVENTS,
  },
  'endpointslice-mirroring': {
    'create endpointslices': 'mirrors of Endpoints that a person has made',
    'update endpointslices': 'the same',
    'delete endpointslices': 'the same',
    'update endpoints/finalizers': OWNER_REFERENCES,
    'create events': EVENTS,
    'patch events': EVENTS,
  },
  namespace: { 'delete *': 'kinds that cannot be deleted as a collection' },
  'node-lifecycle': { 'create events': EVENTS, 'patch events': EVENTS },
};
