import type { GrantedRule, ServedRights } from '../gateway/http/server/function-rights.ts';
import { textTable, time } from './gateway-tables.ts';

interface Right {
  readonly verb: string;
  readonly resource: string;
  readonly names: string;
}

/** Reviews of one's own rights, which every account has. */
const OF_EVERYBODY = /^(authorization|authentication)\.k8s\.io\/selfsubject/;

/** The rights of a function: each with its last use. Those that it has never used stand first. */
export function describeRights({ namespace, used, granted }: ServedRights): string {
  const lastUse = new Map(used.map(({ verb, resource, atMs }) => [`${verb} ${resource}`, atMs]));
  const rights = granted.flatMap(rightsOf).filter(({ resource }) => !OF_EVERYBODY.test(resource));
  const rows = rights.map(({ verb, resource, names }) => {
    const uses = [...lastUse].flatMap(([right, atMs]) => (covers({ verb, resource }, right) ? [atMs] : []));
    return { verb, resource, names, atMs: Math.max(0, ...uses) };
  });
  if (rows.length === 0) return `its ServiceAccount has no rights in the namespace ${namespace}\n`;
  const sorted = rows.toSorted(
    (a, b) => a.atMs - b.atMs || (`${a.resource} ${a.verb}` < `${b.resource} ${b.verb}` ? -1 : 1),
  );
  const unused = rows.filter(({ atMs }) => atMs === 0).length;
  const cells = sorted.map(({ verb, resource, names, atMs }) => [
    verb,
    resource,
    names || '-',
    atMs === 0 ? 'never' : time(atMs),
  ]);
  const of = `${unused} of ${rows.length} rights in the namespace ${namespace} were never used`;
  return `${textTable([['VERB', 'RESOURCE', 'NAMES', 'LAST USED'], ...cells])}${of}\n`;
}

function rightsOf({ verbs, apiGroups = [], resources = [], resourceNames = [] }: GrantedRule): Right[] {
  const all = apiGroups.flatMap((group) => resources.map((each) => (group === '' ? each : `${group}/${each}`)));
  const names = resourceNames.join(',');
  return verbs.flatMap((verb) => all.map((resource): Right => ({ verb, resource, names })));
}

/** Whether a granted right, which may have `*`, allows the used one. */
function covers({ verb, resource }: Pick<Right, 'verb' | 'resource'>, right: string): boolean {
  const [usedVerb, usedResource = ''] = right.split(' ');
  if (verb !== '*' && verb !== usedVerb) return false;
  if (resource === usedResource || resource === '*' || resource === '*/*') return true;
  const [group, rest] = resource.includes('/')
    ? [resource.slice(0, resource.indexOf('/')), resource.slice(resource.indexOf('/') + 1)]
    : ['', resource];
  return rest === '*' && usedResource.startsWith(`${group}/`);
}
