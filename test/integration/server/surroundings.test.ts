import { controller } from 'levelhook/function';
import { expect } from 'vitest';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { it } from '../../harness/world.ts';

const secrets = resource('v1', 'Secret');
const events = resource('v1', 'Event');

const kindOf = ({ apiVersion, kind }: KubernetesObject) => ({ apiVersion, kind });

it('the page of a key shows owners, children, Events and the other controllers of its object, in one namespace', async ({
  world,
}) => {
  const { cluster, namespace, setting, started } = world;
  const own = controller({ name: 'families', for: configMaps }).reconcile(async () => {});
  const other = controller({ name: 'onlookers', for: configMaps }).reconcile(async () => {});
  const urls = await Promise.all(
    [own, other].map(async (each) => (await started.open(new ServedFunction(each, setting))).url),
  );
  const { url } = await world.gateway(urls);
  const create = (name: string, owner?: KubernetesObject, of: Resource = configMaps): Promise<KubernetesObject> => {
    const ownerReferences = owner
      ? [{ ...kindOf(owner), name: owner.metadata.name, uid: owner.metadata.uid, controller: true }]
      : [];
    return cluster.create(of, { metadata: { namespace, name, ownerReferences } });
  };
  const deed = await create('deed', undefined, secrets);
  const parent = await create('parent', deed);
  const child = await create('child', parent);
  await create('grandchild', child);
  await cluster.create(events, {
    metadata: { namespace, name: uniqueName('event') },
    involvedObject: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'parent', uid: parent.metadata.uid },
    type: 'Warning',
    reason: 'OutOfMilk',
    message: 'the shop has closed',
    lastTimestamp: new Date().toISOString().replace(/\.\d+/, ''),
    source: { component: 'the test' },
  });

  const page = async (name: string): Promise<string> => {
    const answer = await fetch(`${url}/dashboard/controllers/families/keys/${namespace}/${name}`);
    expect(answer.status).toBe(200);
    return answer.text();
  };
  const text = await eventually(async () => {
    const text = await page('parent');
    for (const name of ['child', 'grandchild']) {
      expect(text).toContain(`href="/dashboard/controllers/families/keys/${namespace}/${name}"`);
    }
    // The apiserver may be late with its answer.
    expect(text).toContain('OutOfMilk');
    return text;
  });
  for (const words of ['OutOfMilk', 'the shop has closed', 'onlookers', 'reconciles']) expect(text).toContain(words);
  expect(text).toContain(`${namespace}/deed`);
  expect(text).toContain('its kind is not cached');
  expect(text).not.toMatch(/href="[^"]*deed/);
  const below = await page('grandchild');
  expect(below).toContain(`href="/dashboard/controllers/families/keys/${namespace}/child"`);
  expect(below).not.toContain('OutOfMilk');
});
