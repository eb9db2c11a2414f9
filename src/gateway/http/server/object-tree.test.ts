import { describe, expect, it } from 'vitest';
import {
  ApiError,
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  type Resource,
  resource,
} from '../../../core/index.ts';
import { indexEntriesOf } from '../../../contract/cache-layout.ts';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import type { View } from '../../informer/cache/view.ts';
import type { TreeObject } from '../dashboard/data.ts';
import { EventReader, objectTree, type TreeOptions } from './object-tree.ts';

const parents = resource('example.com/v1', 'Parent');
const children = resource('example.com/v1', 'Child');
const worlds = resource('example.com/v1', 'World', { namespaced: false });

/** As the apiserver makes them. */
const uidOf = (name: string): string =>
  `00000000-0000-4000-8000-${Buffer.from(name).toString('hex').slice(-12).padStart(12, '0')}`;

interface Owner {
  readonly of: Resource;
  readonly name: string;
}

function object(of: Resource, key: string, owner?: Owner): KubernetesObject {
  const [namespace, name = ''] = of.namespaced ? key.split('/') : [undefined, key];
  const { apiVersion, kind } = of;
  const ownerReferences = owner ? [{ ...owner.of, name: owner.name, uid: uidOf(owner.name), controller: true }] : [];
  const metadata = { name, uid: uidOf(name), resourceVersion: '1', ownerReferences };
  return { apiVersion, kind, metadata: namespace === undefined ? metadata : { ...metadata, namespace } };
}

/** A view of these objects, in memory. */
function viewOf(of: Resource, objects: readonly KubernetesObject[]): View {
  const keyed = new Map(objects.map((each) => [formatObjectKey(keyOf(each)), each]));
  const encoded = (key: string) => {
    const found = keyed.get(key);
    return found && { bytes: 1, decode: () => found };
  };
  const view = {
    name: `${of.apiVersion}/${of.kind}`,
    resource: of,
    contains: () => true,
    objects: {
      first: async (keys: readonly string[]) => keys.map(encoded),
      eachEncoded: async function* (keys: readonly string[]) {
        for (const key of keys) yield { key, encoded: encoded(key) };
      },
    },
    indexer: {
      keysWith: async (entries: readonly string[], { onPage }: { onPage?: (count: number) => void } = {}) => {
        onPage?.(keyed.size);
        return [...keyed].flatMap(([key, each]) => {
          const own = indexEntriesOf(each, []);
          return entries.every((entry) => own.includes(entry)) ? [key] : [];
        });
      },
    },
  };
  return view as unknown as View;
}

function options(views: readonly View[], more: Partial<TreeOptions> = {}): TreeOptions {
  return {
    views,
    controllers: new Map(),
    hiddenReason: async () => undefined,
    time: { tenant: 't', pace: async (work) => work() },
    shownFor: 'web',
    ...more,
  };
}

/** Names within names, as they are shown. */
function text({ key, note, children: below }: TreeObject): string {
  const inner = below.length > 0 ? ` (${below.map(text).join(', ')})` : '';
  return `${key}${note === undefined ? '' : `: ${note}`}${inner}`;
}

describe('the tree of an object', () => {
  it('has its owners, the topmost first, and what it controls, two levels down', async () => {
    const here = object(children, 'shop/here', { of: parents, name: 'above' });
    const views = [
      viewOf(worlds, [object(worlds, 'top')]),
      viewOf(parents, [object(parents, 'shop/above', { of: worlds, name: 'top' })]),
      viewOf(children, [
        here,
        object(children, 'shop/below', { of: children, name: 'here' }),
        object(children, 'shop/deeper', { of: children, name: 'below' }),
        object(children, 'shop/deepest', { of: children, name: 'deeper' }),
        object(children, 'shop/other', { of: children, name: 'another' }),
      ]),
    ];
    const controller = {
      name: 'web',
      reconciledViews: [views[1]],
      selects: ({ metadata: { name } }: KubernetesObject) => name === 'above',
    };
    const all = ['first', 'web', 'last'].map((name) => ({ ...controller, name }) as unknown as RunningController);
    const controllers = new Map(all.map((each) => [each.name, each]));
    const tree = await objectTree(here, options(views, { controllers }));
    expect(tree.owners.map(text)).toEqual(['top', 'shop/above']);
    // The one whose page is shown comes first.
    expect(tree.owners.map((each) => each.controllers)).toEqual([[], ['web', 'first', 'last']]);
    expect(tree.children.map(text)).toEqual(['shop/below (shop/deeper)']);
    expect(tree.notShown).toBe(0);
  });

  it('has no object of another namespace that names the UID of its owner', async () => {
    const here = object(parents, 'shop/here');
    const evil = object(children, 'evil/intruder', { of: parents, name: 'here' });
    const tree = await objectTree(here, options([viewOf(parents, [here]), viewOf(children, [evil])]));
    expect(tree).toEqual({ owners: [], children: [], notShown: 0, isCut: false });
  });

  it('has the objects of any namespace that a cluster-scoped object controls', async () => {
    const top = object(worlds, 'top');
    const below = [
      object(children, 'shop/a', { of: worlds, name: 'top' }),
      object(children, 'bank/b', { of: worlds, name: 'top' }),
    ];
    const tree = await objectTree(top, options([viewOf(worlds, [top]), viewOf(children, below)]));
    expect(tree.children.map(text)).toEqual(['bank/b', 'shop/a']);
  });

  const rows: [what: string, views: readonly View[], hidden: string | undefined, shown: string][] = [
    ['is not cached', [], undefined, 'shop/above: its kind is not cached'],
    ['is gone', [viewOf(parents, [])], undefined, 'shop/above: the cache does not have it'],
    [
      'was deleted and made again',
      [
        viewOf(parents, [
          {
            ...object(parents, 'shop/above'),
            metadata: { name: 'above', namespace: 'shop', uid: 'new', resourceVersion: '9' },
          },
        ]),
      ],
      undefined,
      'shop/above: another object has its name by now',
    ],
    ['may not be read', [viewOf(parents, [object(parents, 'shop/above')])], 'no right', 'shop/above: no right'],
  ];
  it.each(rows)('says of an owner that it %s', async (_what, views, hidden, shown) => {
    const here = object(children, 'shop/here', { of: parents, name: 'above' });
    const tree = await objectTree(here, options(views, { hiddenReason: async () => hidden }));
    expect(tree.owners.map(text)).toEqual([shown]);
    expect(tree.owners[0]?.health).toBeUndefined();
  });

  it('counts what is too much for a page, and says nothing of what the visitor may not read', async () => {
    const here = object(parents, 'shop/here');
    const below = Array.from({ length: 100 }, (_, at) =>
      object(children, `shop/c${at}`, { of: parents, name: 'here' }),
    );
    const views = [viewOf(parents, [here]), viewOf(children, below)];
    const all = await objectTree(here, options(views));
    expect([all.children.length, all.notShown]).toEqual([30, 70]);
    const hidden = await objectTree(here, options(views, { hiddenReason: async () => 'no right' }));
    expect(hidden).toEqual({ owners: [], children: [], notShown: 0, isCut: false });
  });

  it('says that there are too many objects to look through', async () => {
    const here = object(parents, 'shop/here');
    const view = viewOf(children, [object(children, 'shop/below', { of: parents, name: 'here' })]);
    const keysWith: View['indexer']['keysWith'] = async (_, asked) => {
      for (let page = 0; page < 100; page += 1) asked?.onPage?.(0);
      return ['shop/below'];
    };
    Object.assign(view.indexer, { keysWith });
    let spentMs = 0;
    const pace: TreeOptions['time']['pace'] = async (work, ms) => {
      spentMs += ms ?? 0;
      return work();
    };
    const tree = await objectTree(here, options([view], { time: { tenant: 't', pace } }));
    expect(tree).toEqual({ owners: [], children: [], notShown: 0, isCut: true });
    expect(spentMs).toBeGreaterThan(0.5);
  });

  it('ends with owners that own each other', async () => {
    const [one, two] = [
      object(parents, 'shop/one', { of: parents, name: 'two' }),
      object(parents, 'shop/two', { of: parents, name: 'one' }),
    ];
    const tree = await objectTree(one, options([viewOf(parents, [one, two])]));
    expect(tree.owners).toHaveLength(5);
    expect(tree.children.map(text)).toEqual(['shop/two (shop/one)']);
  });
});

describe('the Events of an object', () => {
  const here = object(children, 'shop/here');
  const visitor = { client: 'ann', readRefusal: async () => undefined };

  it('are the newest ones, whichever API wrote them, and are asked for once in ten seconds', async () => {
    const clock = new InstantClock();
    const asked: unknown[] = [];
    const items = [
      {
        type: 'Normal',
        reason: 'Old',
        message: 'm',
        count: 3,
        lastTimestamp: '2026-11-30T10:00:00Z',
        source: { component: 'kubelet' },
      },
      {
        type: 'Warning',
        reason: 'New',
        message: 'm',
        eventTime: '2026-11-30T11:00:00.000000Z',
        reportingComponent: 'web',
      },
      { reason: 'Series', series: { count: 7, lastObservedTime: '2026-11-30T10:30:00.000000Z' }, lastTimestamp: null },
    ];
    const client = {
      json: async (request: unknown) => {
        asked.push(request);
        return { items } as never;
      },
    };
    const events = new EventReader(clock);
    const shown = await events.of(here, client, visitor);
    expect(shown).toEqual({
      kind: 'shown',
      events: [
        { isWarning: true, reason: 'New', message: 'm', count: 1, at: '2026-11-30T11:00:00.000000Z', from: 'web' },
        {
          isWarning: false,
          reason: 'Series',
          message: '',
          count: 7,
          at: '2026-11-30T10:30:00.000000Z',
          from: undefined,
        },
        { isWarning: false, reason: 'Old', message: 'm', count: 3, at: '2026-11-30T10:00:00Z', from: 'kubelet' },
      ],
    });
    await events.of(here, client, visitor);
    expect(asked).toMatchObject([{ query: { fieldSelector: `involvedObject.uid=${uidOf('here')}` } }]);
    clock.advance(10_000);
    await events.of(here, client, visitor);
    expect(asked).toHaveLength(2);
  });

  it('are kept of few objects, and of their texts what is shown', async () => {
    const long = 'x'.repeat(1_000_000);
    const items = [{ reason: long, message: long, source: { component: long } }, { reportingComponent: long }];
    let asked = 0;
    const client = { json: async () => ({ items: ((asked += 1), items) }) as never };
    const events = new EventReader(new InstantClock());
    const read = (name: string) => events.of(object(children, `shop/${name}`), client, visitor);
    const shown = await read('o-0');
    expect(JSON.stringify(shown).length).toBeLessThan(4 * 600);
    for (let at = 1; at <= 100; at += 1) await read(`o-${at}`);
    expect(asked).toBe(101);
    await read('o-1');
    expect(asked).toBe(101);
    await read('o-0');
    expect(asked).toBe(102);
  });

  it.each([
    [new ApiError({ code: 403, message: 'no' }), 'the gateway may not list Events'],
    [new Error('it is away'), 'it is away'],
  ])('are a command where they cannot be read: %s', async (error, why) => {
    const client = {
      json: async () => {
        throw error;
      },
    };
    expect(await new EventReader(new InstantClock()).of(here, client, visitor)).toEqual({
      kind: 'hidden',
      reason: `They could not be read (${why}). Ask the cluster: kubectl events -n shop --for Child/here`,
    });
  });

  it('are not asked for by a visitor who may not read them', async () => {
    const client = { json: async () => expect.fail('it was asked') };
    const stranger = { client: 'ann', readRefusal: async () => 'you may not list events' };
    const shown = await new EventReader(new InstantClock()).of(here, client, stranger);
    expect(shown).toEqual({ kind: 'hidden', reason: 'you may not list events' });
  });
});
