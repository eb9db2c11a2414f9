import { controller, equal, isControlledBy, setControllerReference, TerminalError } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

/**
 * Keeps a ConfigMap, NAME-members, with the mail addresses of a team: every ConfigMap labelled `team: "true"` names its
 * members in `data.members`, and the ConfigMap of each member has `data.mail`.
 */
export const team = controller({
  name: 'team',
  for: { resource: ConfigMap, labelSelector: { matchLabels: { team: 'true' } } },
  owns: [ConfigMap],
  watches: [{ resource: ConfigMap, map: { by: 'related' } }],
  writes: [{ resource: ConfigMap, verbs: ['create', 'update'] }],
}).reconcile(async (request, { api, cache, related }) => {
  const found = await cache.get(ConfigMap, request);
  if (!found || found.metadata.deletionTimestamp) return;
  const { namespace = '' } = found.metadata;
  const names = [...new Set((found.data?.['members'] ?? '').split(/[\s,]+/).filter((name) => name !== ''))];
  // A change of one of these, its creation too, wakes this key until a run names others.
  related(names.length === 0 ? [] : [{ resource: ConfigMap, namespace, names }]);

  const members = await Promise.all(names.map((name) => cache.get(ConfigMap, { namespace, name })));
  const data = Object.fromEntries(names.map((name, at) => [name, members[at]?.data?.['mail'] ?? '']));
  const key = { namespace, name: `${found.metadata.name}-members` };
  const child = await cache.get(ConfigMap, key);
  if (child && !isControlledBy(child, found)) throw new TerminalError(`${key.name} belongs to another owner`);
  if (!child) await api.create(ConfigMap, setControllerReference(ConfigMap, found, { metadata: key, data }));
  else if (!equal(child.data, data)) await api.replace(ConfigMap, { ...child, data });
});
