import { describe, expect } from 'vitest';
import type { ControllerOptions } from '../../../src/function/index.ts';
import type { KubernetesObject, Resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { uniqueName, untilIdle } from '../../harness/levelhook.ts';
import { type Observer, openObserved } from '../../harness/observer.ts';
import { defineWebs, referencesTo } from '../../harness/webs.ts';
import { it, untilFurnished } from '../../harness/world.ts';

const TO = 'levelhook.test/sources-to';

describe('where the events of a watched kind lead', () => {
  const m = uniqueName('sources');
  const owners = new Map<string, KubernetesObject>();
  let observers: ReadonlyMap<string, Observer>;
  let cluster: Cluster;
  let n: string;
  let gatewayUrl: string;

  /** One controller for each way, over the same ConfigMaps. */
  function controllersOf(webs: Resource, sites: Resource): Record<string, Omit<ControllerOptions, 'name'>> {
    const watching = (map: NonNullable<ControllerOptions['watches']>[number]['map'], more: object = {}) => ({
      for: webs,
      watches: [{ resource: configMaps, map, ...more }],
    });
    return {
      owns: { for: webs, owns: [configMaps] },
      'owns-any': { for: webs, owns: [{ resource: configMaps, owner: 'any' }] },
      'by-owner': watching({ by: 'owner' }),
      'by-label': watching({ by: 'label', label: TO }),
      'by-annotation': watching({ by: 'annotation', annotation: TO }),
      'by-field': watching({ by: 'field', path: 'data.to' }),
      'by-index': watching({ by: 'index', index: 'field:spec.configs' }),
      'by-selector': watching({ by: 'selector', path: 'spec.selector' }),
      // Other tests have ConfigMaps of their own.
      'by-all': watching({ by: 'all' }, { namespaces: [n, m] }),
      'by-cel': watching({ by: 'cel', expression: `has(object.data) && has(object.data.to) ? [object.data.to] : []` }),
      'in-m': watching({ by: 'label', label: TO }, { namespaces: [m] }),
      'for-n': { ...watching({ by: 'annotation', annotation: TO }), for: { resource: webs, namespaces: [n] } },
      'for-selected': {
        for: { resource: webs, labelSelector: { matchLabels: { tier: 'front' } } },
        watches: [{ resource: configMaps, map: { by: 'all' }, namespaces: [n, m] }],
        owns: [{ resource: configMaps, owner: 'any' }],
      },
      twice: {
        for: webs,
        watches: [
          { resource: configMaps, map: { by: 'label', label: TO }, predicate: { changed: 'labels' } },
          { resource: configMaps, map: { by: 'annotation', annotation: TO }, predicate: { changed: 'annotations' } },
        ],
      },
      several: { for: webs, owns: [configMaps, sites], reads: [{ resource: sites }] },
      'cluster-scoped': {
        for: sites,
        owns: [{ resource: configMaps, owner: 'any' }],
        watches: [{ resource: configMaps, map: { by: 'label', label: TO } }],
      },
    };
  }

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    ({ cluster, namespace: n } = world);
    await cluster.createNamespace(m);
    started.add(() => cluster.deleteNamespace(m));
    const { webs, sites } = await defineWebs(started, cluster, `${n}.levelhook.test`);
    const web = async (namespace: string, name: string, spec: object, tier = 'front'): Promise<void> => {
      const metadata = { namespace, name, labels: { tier } };
      owners.set(`${namespace}/${name}`, await cluster.create(webs, { metadata, spec }));
    };
    const markers = Array.from({ length: 50 }, (_, at) => `marker-${at}`);
    await web(n, 'a', { selector: { matchExpressions: [{ key: TO, operator: 'In', values: ['b', 'c'] }] } });
    await web(n, 'b', { configs: ['c'] }, 'back');
    await web(n, 'c', { selector: { [TO]: 'c' } });
    await web(n, 'marker', { configs: markers, selector: { [TO]: 'marker' } });
    await web(m, 'a', {});
    await web(m, 'marker', {});
    for (const name of ['a', 'b', 'marker']) owners.set(name, await cluster.create(sites, { metadata: { name } }));
    await untilFurnished(cluster, m);
    ({ observers, gatewayUrl } = await openObserved(started, setting, controllersOf(webs, sites)));
  });

  const owner = (key: string): KubernetesObject => {
    const found = owners.get(key);
    if (!found) throw new Error(`there is no ${key}`);
    return found;
  };

  let markers = 0;

  /** Two ConfigMaps that lead to a marker in every way: what came before them has been heard. */
  async function mark(from: ReadonlyMap<string, number>): Promise<void> {
    const name = `marker-${markers}`;
    markers += 1;
    for (const namespace of [n, m]) {
      const web = owner(`${namespace}/marker`);
      const ownerReferences = referencesTo([web, owner('marker')], web);
      const names = { labels: { [TO]: 'marker' }, annotations: { [TO]: 'marker' }, ownerReferences };
      await cluster.create(configMaps, { metadata: { namespace, name, ...names }, data: { to: 'marker' } });
    }
    for (const [each, observer] of observers) {
      await observer.untilWokenBy(`v1/ConfigMap ${each === 'in-m' ? m : n}/${name}`, from.get(each));
    }
    await untilIdle(gatewayUrl);
  }

  /** The keys that a step wakes, by controller; those that it wakes none of are not named. */
  async function wokenBy(step: () => Promise<unknown>): Promise<Record<string, string[]>> {
    const from = new Map([...observers].map(([name, observer]) => [name, observer.count]));
    await step();
    await mark(from);
    const found = [...observers].map(([name, observer]): [string, string[]] => {
      const woken = observer.keys(from.get(name)).filter((key) => !/(^|[/])marker$/.test(key));
      // Other files of this plane have ConfigMaps, too, and some lead by the same field.
      const keys = woken.filter((key) => !key.includes('/') || [n, m].includes(key.split('/')[0] ?? ''));
      return [name, keys.map((key) => key.replace(`${n}/`, 'n/').replace(`${m}/`, 'm/')).toSorted()];
    });
    // Those that lead to all have been woken by the marker, too.
    return Object.fromEntries(found.filter(([name, keys]) => keys.length > 0 && !name.endsWith('-all')));
  }

  it('to whom each of them says, the old object and the new one', async () => {
    const key = { namespace: n, name: 'c' };
    const patch = (metadata: object, data: object = {}): Promise<unknown> =>
      cluster.patch(configMaps, key, { metadata, data });
    const [a, b, c] = ['a', 'b', 'c'].map((name) => owner(`${n}/${name}`));
    if (!a || !b || !c) throw new Error('there are no owners');
    const ownerReferences = referencesTo([a, b, owner('a')], a);
    const names = { labels: { [TO]: 'c' }, annotations: { [TO]: 'b' }, ownerReferences };
    const made = () => cluster.create(configMaps, { metadata: { ...key, ...names }, data: { to: 'a' } });
    // Whoever is referred to by owner, label, annotation or field changes in none of these steps but where it says so.
    const steady = {
      owns: ['n/a'],
      'owns-any': ['n/a', 'n/b'],
      'by-owner': ['n/a'],
      'by-label': ['n/c'],
      'by-annotation': ['n/b'],
      'by-field': ['n/a'],
      'by-index': ['n/b'],
      'by-selector': ['n/a', 'n/c'],
      'by-cel': ['n/a'],
      'for-n': ['n/b'],
      'for-selected': ['m/a', 'n/a', 'n/c'],
      several: ['n/a'],
      'cluster-scoped': ['a', 'c'],
    };
    const twice = { twice: ['n/b', 'n/c'] };
    expect(await wokenBy(made)).toEqual({ ...steady, ...twice });
    expect(await wokenBy(() => patch({}, { other: 'x' }))).toEqual(steady);
    expect(await wokenBy(() => patch({ labels: { [TO]: 'b' } }))).toEqual({
      ...steady,
      'by-label': ['n/b', 'n/c'],
      twice: ['n/b', 'n/c'],
      'cluster-scoped': ['a', 'b', 'c'],
    });
    expect(await wokenBy(() => patch({ labels: { [TO]: null } }))).toEqual({
      ...steady,
      'by-label': ['n/b'],
      'by-selector': ['n/a'],
      twice: ['n/b'],
      'cluster-scoped': ['a', 'b'],
    });
    const { 'by-label': _, 'by-selector': __, ...unlabelled } = { ...steady, 'cluster-scoped': ['a'] };
    expect(await wokenBy(() => patch({ annotations: { [TO]: `${m}/a` } }))).toEqual({
      ...unlabelled,
      'by-annotation': ['m/a', 'n/b'],
      twice: ['m/a', 'n/b'],
    });
    const moved = { ...unlabelled, 'by-annotation': ['m/a'], 'for-n': [] };
    expect(await wokenBy(() => patch({}, { to: 'b' }))).toEqual(
      without({ ...moved, 'by-field': ['n/a', 'n/b'], 'by-cel': ['n/a', 'n/b'] }),
    );
    const named = { ...moved, 'by-field': ['n/b'], 'by-cel': ['n/b'] };
    expect(await wokenBy(() => patch({ ownerReferences: referencesTo([b, c, owner('b')], c) }))).toEqual(
      without({
        ...named,
        owns: ['n/a', 'n/c'],
        'by-owner': ['n/a', 'n/c'],
        several: ['n/a', 'n/c'],
        'owns-any': ['n/a', 'n/b', 'n/c'],
        'cluster-scoped': ['a', 'b'],
      }),
    );
    const owned = { owns: ['n/c'], 'by-owner': ['n/c'], several: ['n/c'], 'owns-any': ['n/b', 'n/c'] };
    const last = without({ ...named, ...owned, 'cluster-scoped': ['b'] });
    expect(await wokenBy(() => cluster.delete(configMaps, key))).toEqual({ ...last, twice: ['m/a'] });
  });

  it('nowhere from a namespace that a source leaves out, and to no key outside the scope', async () => {
    const metadata = { namespace: m, name: 'x', labels: { [TO]: 'a' }, annotations: { [TO]: 'a' } };
    expect(await wokenBy(() => cluster.create(configMaps, { metadata }))).toEqual({
      'by-label': ['m/a'],
      'by-annotation': ['m/a'],
      'in-m': ['m/a'],
      'for-selected': ['m/a', 'n/a', 'n/c'],
      twice: ['m/a'],
      'cluster-scoped': ['a'],
    });
  });

  it('to all keys with the map all, from the namespaces of the source', async () => {
    const observer = observers.get('by-all');
    const from = observer?.count ?? 0;
    await cluster.create(configMaps, { metadata: { namespace: m, name: 'all' } });
    await observer?.untilWokenBy(`v1/ConfigMap ${m}/all`, from);
    await untilIdle(gatewayUrl);
    const all = [`${m}/a`, `${m}/marker`, ...['a', 'b', 'c', 'marker'].map((name) => `${n}/${name}`)];
    expect(observer?.keys(from)).toEqual(all.toSorted());
  });
});

function without(woken: Readonly<Record<string, string[]>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(woken).filter(([, keys]) => keys.length > 0));
}
