import {
  type Condition,
  type Context,
  controller,
  equal,
  generationChanged,
  isControlledBy,
  setControllerReference,
  setStatusCondition,
  TerminalError,
} from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';
// Made by `levelhook types site.crd.yaml --out .`
import { Site } from './sites.example.com-v1.ts';

/** Keeps a ConfigMap, NAME-pages, with the pages of every Site in HTML, and reports the result in the Site's status. */
export const site = controller({
  name: 'site',
  // The controller's own writes of the status wake no key.
  for: { resource: Site, predicate: generationChanged },
  owns: [ConfigMap],
  // Nothing else is sent, and `levelhook manifest` prints these rights.
  writes: [
    { resource: ConfigMap, verbs: ['create', 'update'] },
    { resource: Site, subresource: 'status', verbs: ['update'] },
  ],
  concurrency: 5,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const found = await cache.get(Site, request);
  // The garbage collector deletes the ConfigMap with its Site.
  if (!found || found.metadata.deletionTimestamp) return;

  const key = { namespace: found.metadata.namespace ?? '', name: `${found.metadata.name}-pages` };
  const pages = await cache.get(ConfigMap, key);
  if (pages && !isControlledBy(pages, found)) {
    const message = `the ConfigMap ${key.name} belongs to another owner`;
    await tell(found, { status: 'False', reason: 'NameTaken', message }, context);
    // A retry would not help, but the next event of the Site or of the ConfigMap may.
    throw new TerminalError(message);
  }

  const data = Object.fromEntries(Object.entries(found.spec.pages).map(([name, text]) => [`${name}.html`, html(text)]));
  if (!pages) await api.create(ConfigMap, setControllerReference(Site, found, { metadata: key, data }));
  else if (!equal(pages.data, data)) await api.replace(ConfigMap, { ...pages, data });

  await tell(found, { status: 'True', reason: 'Written', message: '' }, context);
});

/** Writes the status if it differs. */
async function tell(
  found: Site,
  ready: Pick<Condition, 'status' | 'reason' | 'message'>,
  { api }: Context,
): Promise<void> {
  const { generation: observedGeneration = 0 } = found.metadata;
  const before = found.status?.conditions;
  const conditions = setStatusCondition(before, { type: 'Ready', ...ready, observedGeneration });
  const pages = ready.status === 'True' ? Object.keys(found.spec.pages).length : 0;
  if (conditions === before && found.status?.pages === pages) return;
  await api.replace(Site, { ...found, status: { pages, conditions } }, 'status');
}

function html(text: string): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<!doctype html><p>${escaped}</p>`;
}
