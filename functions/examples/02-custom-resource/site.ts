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

/** For every Site a ConfigMap, NAME-pages, with its pages in HTML, and on the Site whether that is so. */
export const site = controller({
  name: 'site',
  // Our own writes of the status wake no key.
  for: { resource: Site, predicate: generationChanged },
  owns: [ConfigMap],
  concurrency: 5,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const found = await cache.get(Site, request);
  // What it owns goes with it.
  if (!found || found.metadata.deletionTimestamp) return;

  const key = { namespace: found.metadata.namespace ?? '', name: `${found.metadata.name}-pages` };
  const pages = await cache.get(ConfigMap, key);
  if (pages && !isControlledBy(pages, found)) {
    const message = `the ConfigMap ${key.name} belongs to another owner`;
    await tell(found, { status: 'False', reason: 'NameTaken', message }, context);
    // Trying again would not help: the next event of the Site or of the ConfigMap may.
    throw new TerminalError(message);
  }

  const data = Object.fromEntries(Object.entries(found.spec.pages).map(([name, text]) => [`${name}.html`, html(text)]));
  if (!pages) await api.create(ConfigMap, setControllerReference(Site, found, { metadata: key, data }));
  else if (!equal(pages.data, data)) await api.replace(ConfigMap, { ...pages, data });

  await tell(found, { status: 'True', reason: 'Written', message: '' }, context);
});

/** Writes the status when it is not as it should be. */
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
