import type { GrantedRule, ServedRights } from '../gateway/http/server/function-rights.ts';
import { textTable, time } from './gateway-tables.ts';

interface Right {
  readonly verb: string;
  readonly group: string;
  /** With its subresource. */
  readonly resource: string;
  readonly names: string;
}

/** Reviews of one's own rights, which every account has. */
const OF_EVERYBODY = /^selfsubject/;
/** The cache needs these whether the function reads live or not. */
const READS = ['get', 'list', 'watch'];

/** The rights of a function: each with its last use. Those to write that it has never used stand first. */
export function describeRights({ namespace, used, granted, incomplete }: ServedRights): string {
  const rights = granted.flatMap(rightsOf).filter(({ resource }) => !OF_EVERYBODY.test(resource));
  const more = incomplete ? 'the apiserver knows of more rights, which it cannot list\n' : '';
  if (rights.length === 0) return `its ServiceAccount has no rights in the namespace ${namespace}\n${more}`;
  const rows = rights.map((right) => {
    const uses = used.flatMap((each) => (covers(right, each.verb, each.resource) ? [each.atMs] : []));
    return { right, atMs: Math.max(0, ...uses), isSeen: isSeen(right) };
  });
  const rank = ({ atMs, isSeen: seen }: (typeof rows)[number]): number => (atMs === 0 ? (seen ? 0 : 1) : 2);
  const sorted = rows.toSorted(
    (a, b) => rank(a) - rank(b) || a.atMs - b.atMs || (nameOf(a.right) < nameOf(b.right) ? -1 : 1),
  );
  const cells = sorted.map(({ right, atMs, isSeen: seen }) => [
    right.verb,
    placeOf(right),
    right.names || '-',
    atMs > 0 ? time(atMs) : seen ? 'never' : 'not seen here',
  ]);
  const writes = rows.filter((each) => each.isSeen);
  const unused = writes.filter(({ atMs }) => atMs === 0).length;
  const sum = `${unused} of ${writes.length} rights to write in the namespace ${namespace} were never used; webhooks may need them\n`;
  return `${textTable([['VERB', 'RESOURCE', 'NAMES', 'LAST USED'], ...cells])}${sum}${more}`;
}

/** Whether the gateway sees each use. It sees none of the rights that the cache and owner references need. */
function isSeen({ verb, resource }: Right): boolean {
  return !READS.includes(verb) && !resource.endsWith('/finalizers');
}

function rightsOf({ verbs, apiGroups = [], resources = [], resourceNames = [] }: GrantedRule): Right[] {
  const names = resourceNames.join(',');
  return verbs.flatMap((verb) =>
    apiGroups.flatMap((group) => resources.map((resource): Right => ({ verb, group, resource, names }))),
  );
}

const placeOf = ({ group, resource }: Right): string => (group === '' ? resource : `${group}/${resource}`);
const nameOf = (right: Right): string => `${placeOf(right)} ${right.verb}`;

/** Whether a granted right, which may have `*`, allows a used one: `apps/deployments/scale`, `configmaps/status`. */
function covers({ verb, group, resource }: Right, usedVerb: string, used: string): boolean {
  if (verb !== '*' && verb !== usedVerb) return false;
  const parts = used.split('/');
  // A group has a dot or stands before a resource; a core resource has at most a subresource behind it.
  const isCore = parts.length === 1 || (parts.length === 2 && SUBRESOURCES.has(parts[1] ?? ''));
  const usedGroup = isCore ? '' : (parts[0] ?? '');
  const rest = (isCore ? parts : parts.slice(1)).join('/');
  if (group !== '*' && group !== usedGroup) return false;
  if (resource === '*' || resource === rest) return true;
  const [, subresource] = rest.split('/');
  return subresource !== undefined && resource === `*/${subresource}`;
}

/** The subresources that the gateway passes on (`proxied-request.ts`). */
const SUBRESOURCES = new Set(['status', 'scale', 'eviction', 'finalize']);
