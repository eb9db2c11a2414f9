import { describe, expect, it } from 'vitest';
import {
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  type Resource,
  resource,
  SelectorError,
} from '../../../core/index.ts';
import { keyRange } from '../../../contract/cache-layout.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import type { View } from '../../informer/cache/view.ts';
import { keysIn, parseQuery, searchObjects, type SearchOptions } from './object-search.ts';

const maps = resource('v1', 'ConfigMap');
const nodes = resource('v1', 'Node', { namespaced: false });
const uidOf = (at: number): string => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`;

function objects(
  of: Resource,
  keys: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): KubernetesObject[] {
  return keys.map((key, at) => {
    const [namespace, name = ''] = of.namespaced ? key.split('/') : [undefined, key];
    const metadata = {
      name,
      uid: uidOf(at),
      resourceVersion: '1',
      labels,
      ...(namespace === undefined ? {} : { namespace }),
    };
    return { apiVersion: of.apiVersion, kind: of.kind, metadata };
  });
}

/** A view of these objects, in memory. @param namespace the only one that it holds. Default: all. */
function viewOf(of: Resource, all: readonly KubernetesObject[], namespace?: string): View {
  const keyed = new Map(all.map((each) => [formatObjectKey(keyOf(each)), each]));
  const view = {
    name: `${of.apiVersion}/${of.kind}`,
    resource: of,
    location: { prefix: 'p', ...(namespace === undefined ? {} : { namespace }) },
    contains: (wanted: string | undefined) => namespace === undefined || wanted === namespace,
    objects: {
      keys: async function* (count = 1000, within?: string, after = '') {
        const [min, max] = keyRange(within, after);
        const isIn = (key: string): boolean =>
          (min === '-' || (min.startsWith('[') ? key >= min.slice(1) : key > min.slice(1))) &&
          (max === '+' || key < max.slice(1));
        const found = [...keyed.keys()].filter(isIn).toSorted();
        for (let from = 0; from < found.length; from += count) yield found.slice(from, from + count);
      },
      heads: async (keys: readonly string[], { paid }: { paid?: (bytes: number) => unknown }) => {
        paid?.(1);
        return keys.map((key) => ({ uid: keyed.get(key)?.metadata.uid }));
      },
      // As Redis: one at least, not always all.
      first: async (keys: readonly string[]) => keys.slice(0, 3).map((key) => ({ decode: () => keyed.get(key) })),
    },
  };
  return view as unknown as View;
}

const time = { tenant: 't', pace: async <T>(work: () => T): Promise<T> => work() };

function options(views: readonly View[], more: Partial<SearchOptions> = {}): SearchOptions {
  return { views, controllers: new Map(), hiddenReason: async () => undefined, time, ...more };
}

async function found(text: string, views: readonly View[], more: Partial<SearchOptions> = {}): Promise<string[]> {
  return (await searchObjects(parseQuery(text), options(views, more))).objects.map(({ key }) => key);
}

describe('a search for objects', () => {
  const some = objects(maps, ['bank/cart', 'shop/cart', 'shop/cart-2', 'shop/tea']);
  const views = [viewOf(maps, some), viewOf(nodes, objects(nodes, ['cart-node']))];

  it('finds names that contain a text, the very name first', async () => {
    expect(await found('cart', views)).toEqual(['bank/cart', 'shop/cart', 'shop/cart-2', 'cart-node']);
    expect(await found('cart-2', views)).toEqual(['shop/cart-2']);
    expect(await found('none', views)).toEqual([]);
  });

  it('finds them in a namespace, and no object of the cluster there', async () => {
    expect(await found('shop/cart', views)).toEqual(['shop/cart', 'shop/cart-2']);
    expect(await found('shop/', views)).toEqual(['shop/cart', 'shop/cart-2', 'shop/tea']);
    expect(await found('sho/cart', views)).toEqual([]);
  });

  it('finds the object of a UID', async () => {
    expect(await found(uidOf(3), views)).toEqual(['shop/tea']);
    expect(await found(uidOf(0), views)).toEqual(['bank/cart']);
  });

  it('finds objects by labels, and says what is no selector', async () => {
    const labelled = viewOf(maps, [...some, ...objects(maps, ['shop/web-1', 'shop/web-2'], { app: 'web' })]);
    expect(await found('app=web', [labelled])).toEqual(['shop/web-1', 'shop/web-2']);
    expect(await found('!app', [labelled])).toEqual(['bank/cart', 'shop/cart', 'shop/cart-2', 'shop/tea']);
    await expect(found('=web', [labelled])).rejects.toThrow(SelectorError);
  });

  it('leads to the keys of the controllers that reconcile an object', async () => {
    const controller = {
      name: 'web',
      reconciledViews: [views[0]],
      hasInScope: (key: string) => key.startsWith('shop/'),
    };
    const controllers = new Map([['web', controller as unknown as RunningController]]);
    const { objects: all } = await searchObjects(parseQuery('cart'), options(views, { controllers }));
    expect(all.map((each) => each.controllers)).toEqual([[], ['web'], ['web'], []]);
  });

  it('shows what the visitor may read, in all namespaces or in some, and asks about nothing else', async () => {
    const asked: string[] = [];
    const hiddenReason: SearchOptions['hiddenReason'] = async ({ name }, namespace) => {
      asked.push(`${name} ${namespace ?? '*'}`);
      return name === 'v1/ConfigMap' && namespace !== 'shop' ? 'no right' : undefined;
    };
    expect(await found('cart', views, { hiddenReason })).toEqual(['shop/cart', 'shop/cart-2', 'cart-node']);
    expect(asked).toEqual(['v1/ConfigMap *', 'v1/ConfigMap bank', 'v1/ConfigMap shop', 'v1/Node *']);
    expect(await found('bank/cart', views, { hiddenReason })).toEqual([]);
    asked.length = 0;
    expect(await found('none', views, { hiddenReason })).toEqual([]);
    // No namespace can have this name.
    expect(await found('No_Name/cart', views, { hiddenReason })).toEqual([]);
    expect(asked).toEqual([]);
  });

  it('takes a name, a key and a label of 36 characters for what they are', async () => {
    const [name, other] = ['n'.repeat(36), 'm'.repeat(31)];
    const view = viewOf(maps, objects(maps, [`shop/${name}`, `shop/${other}`], { a: 'v'.repeat(34) }));
    expect(await found(name, [view])).toEqual([`shop/${name}`]);
    expect(await found(`shop/${other}`, [view])).toEqual([`shop/${other}`]);
    expect(await found(`a=${'v'.repeat(34)}`, [view])).toHaveLength(2);
  });

  it('ends after as many objects as a page has, and after as many keys as it may look at', async () => {
    const many = viewOf(
      maps,
      objects(
        maps,
        Array.from({ length: 25_000 }, (_, at) => `shop/o${String(at).padStart(5, '0')}`),
      ),
    );
    const page = await searchObjects(parseQuery('o'), options([many]));
    expect([page.objects.length, page.isWhole]).toEqual([50, false]);
    const late = await searchObjects(parseQuery('o24999'), options([many]));
    expect([late.objects, late.isWhole]).toEqual([[], false]);
    expect((await searchObjects(parseQuery('o19999'), options([many]))).objects).toHaveLength(1);
  });
});

describe('the keys of all objects of a controller', () => {
  const names = Array.from({ length: 2500 }, (_, at) => `shop/o${String(at).padStart(4, '0')}`);
  const all = { after: '', limit: 1000, isInScope: () => true, time };

  it.each([
    ['one view', [viewOf(maps, objects(maps, ['bank/o0001', ...names]))]],
    [
      'a view of each namespace',
      [viewOf(maps, objects(maps, names), 'shop'), viewOf(maps, objects(maps, ['bank/o0001']), 'bank')],
    ],
  ])('are each on one page, in order, in %s', async (_, views) => {
    const pages: string[][] = [];
    for (let after: string | undefined = ''; after !== undefined;) {
      const page: Awaited<ReturnType<typeof keysIn>> = await keysIn(
        views,
        { namespace: '', name: '' },
        { ...all, after },
      );
      pages.push([...page.keys]);
      after = page.next;
    }
    expect(pages.map(({ length }) => length)).toEqual([1000, 1000, 501]);
    expect(pages.flat()).toEqual(['bank/o0001', ...names]);
  });

  it('are those of a namespace, with a text in their name, in the scope of the controller', async () => {
    const views = [viewOf(maps, objects(maps, ['bank/o0001', ...names]))];
    const isInScope = (key: string): boolean => key !== 'shop/o0001';
    const page = await keysIn(views, { namespace: 'shop', name: '001' }, { ...all, isInScope });
    expect(page.keys).toEqual(names.filter((each) => each.includes('001') && each !== 'shop/o0001'));
    expect(page).toMatchObject({ looked: 2500, next: undefined });
  });
});
