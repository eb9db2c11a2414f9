import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import {
  type KubernetesObject,
  type ObjectMeta,
  type Resource,
  resource,
  silentLogger,
  silentMetrics,
  systemClock,
} from '../../../core/index.ts';
import { indexEntriesOf } from '../../../contract/cache-layout.ts';
import type { Description } from '../../../contract/index.ts';
import { descriptionSchema } from '../../../contract/description-schema.ts';
import type { Change, Lookup } from '../../informer/cache/change.ts';
import { View } from '../../informer/cache/view.ts';
import { CpuBudgets } from '../cel/cpu-budget.ts';
import { threadMs } from '../../../ground/time-slice.ts';
import { type ExpressionFailure, Expressions } from '../cel/expressions.ts';
import { HandlerCutOffError } from '../handlers/handler-cut-off-error.ts';
import { KeyScope } from '../handlers/key-scope.ts';
import { PAUSED_INDEX } from '../handlers/paused.ts';
import { EventSources } from './event-sources.ts';

const webs = resource('example.com/v1', 'Web');
const clusterWebs = resource('example.com/v1', 'Web', { namespaced: false });
const pods = resource('v1', 'Pod');
const nodes = resource('v1', 'Node', { namespaced: false });
const redis = new Redis({ lazyConnect: true });

type Sources = Partial<Pick<Description, 'for' | 'owns' | 'watches'>>;
interface Setting {
  readonly of?: Resource;
  /** Namespaces whose objects of the kind `for` have a view each. Default: one view of all namespaces. */
  readonly cached?: readonly string[];
  readonly onFailure?: (failure: ExpressionFailure) => void;
}

/** The handlers of a controller, asked as the applier asks them: without the old object unless one needs it. */
function wakes(sources: Sources, { of = webs, cached, onFailure }: Setting = {}) {
  const description = descriptionSchema.parse({ version: 'v1', name: 'web', for: webs, ...sources });
  const views = (cached ?? [undefined]).map(
    (namespace) => new View(redis, of, { prefix: `view:${namespace ?? ''}`, ...(namespace ? { namespace } : {}) }),
  );
  const scope = new KeyScope(of, description.for, views);
  // This thread's processor time: other work on the machine refills no budget.
  const budget = new CpuBudgets({ now: threadMs }).of('web');
  const shared = {
    controller: 'web',
    clock: systemClock,
    logger: silentLogger,
    metrics: silentMetrics,
    budget,
    onFailure,
  };
  const events = new EventSources(description, scope, new Expressions(shared));
  return (change: Change): (string | Lookup)[] => {
    const handlers = events.handlersFor(change.object as unknown as Resource);
    let asked = change;
    if (change.type === 'updated' && change.old) {
      const { resourceVersion, uid } = change.old.metadata;
      const indexEntries = indexEntriesOf(change.old, [PAUSED_INDEX]);
      const entry = { resourceVersion, uid, terminating: false, indexEntries };
      const isNeeded = handlers.some((each) => each.needsOld(change.object, entry));
      if (!isNeeded) asked = { type: 'updated', object: change.object };
    }
    const wakeups = handlers.flatMap((each) => each.handle(asked));
    const keys = wakeups.flatMap((wakeup) => ('key' in wakeup ? [wakeup.key] : [])).toSorted();
    return [...keys, ...wakeups.flatMap((wakeup) => ('lookup' in wakeup ? [wakeup.lookup as Lookup] : []))];
  };
}

const objectOf = (
  of: Resource,
  { namespace = 'n', ...metadata }: Partial<ObjectMeta> = {},
  rest: object = {},
): KubernetesObject => ({
  apiVersion: of.apiVersion,
  kind: of.kind,
  metadata: {
    ...(of.namespaced ? { namespace } : {}),
    name: 'x',
    uid: 'u',
    resourceVersion: '1',
    ...metadata,
  },
  ...rest,
});
const added = (object: KubernetesObject): Change => ({ type: 'added', object });
const deleted = (object: KubernetesObject): Change => ({ type: 'deleted', object });
const updated = (old: KubernetesObject, object: KubernetesObject): Change => ({ type: 'updated', object, old });
const ownedBy = (...owners: string[]): Pick<ObjectMeta, 'ownerReferences'> => ({
  ownerReferences: owners.map((owner) => {
    const [name = '', controller] = owner.split('!');
    const { apiVersion, kind } = webs;
    return { apiVersion, kind, name, uid: `of-${name}`, ...(controller === undefined ? {} : { controller: true }) };
  }),
});

describe('for', () => {
  it('wakes its own key, within its namespaces', () => {
    const wake = wakes({ for: { ...webs, namespaces: ['n', 'm'] } });
    expect(wake(added(objectOf(webs)))).toEqual(['n/x']);
    expect(wake(deleted(objectOf(webs, { namespace: 'm' })))).toEqual(['m/x']);
    expect(wake(added(objectOf(webs, { namespace: 'o' })))).toEqual([]);
    expect(wakes({}, { of: clusterWebs })(added(objectOf(clusterWebs)))).toEqual(['x']);
  });

  it('with a selector is as a watch with it: what leaves is deleted, what was outside is nothing', () => {
    const wake = wakes({ for: { ...webs, labelSelector: { matchLabels: { a: '1' } } } });
    const [inside, outside] = [objectOf(webs, { labels: { a: '1' } }), objectOf(webs, { labels: { a: '2' } })];
    expect(wake(added(inside))).toEqual(['n/x']);
    expect(wake(added(outside))).toEqual([]);
    expect(wake(updated(inside, outside))).toEqual(['n/x']);
    expect(wake(updated(outside, inside))).toEqual(['n/x']);
    expect(wake(updated(outside, outside))).toEqual([]);
    expect(wake(deleted(inside))).toEqual(['n/x']);
    expect(wake(deleted(outside))).toEqual([]);
  });

  it('with a selector: coming and leaving pass predicates as an add and a delete do', () => {
    const labelSelector = { matchLabels: { a: '1' } };
    const wake = wakes({ for: { ...webs, labelSelector, predicate: { changed: 'generation' } } });
    const [inside, outside] = [objectOf(webs, { labels: { a: '1' } }), objectOf(webs)];
    expect(wake(updated(inside, inside))).toEqual([]);
    expect(wake(updated(outside, inside))).toEqual(['n/x']);
    expect(wake(updated(inside, outside))).toEqual(['n/x']);
    expect(wake(updated(inside, { ...inside, metadata: { ...inside.metadata, generation: 2 } }))).toEqual(['n/x']);
  });

  it('is woken by a change of the annotation that pauses it, whatever its predicate', () => {
    const never = { not: { changed: 'resourceVersion' } } as const;
    for (const predicate of [never, { changed: 'generation' }, { cel: 'oldObject != null && false' }] as const) {
      const wake = wakes({ for: { ...webs, predicate } });
      const [plain, noted] = [objectOf(webs), objectOf(webs, { annotations: { a: 'b' } })];
      const paused = objectOf(webs, { annotations: { 'levelhook.dev/paused': 'true' } });
      const resumed = objectOf(webs, { annotations: { 'levelhook.dev/paused': 'false' } });
      expect(wake(updated(plain, paused))).toEqual(['n/x']);
      expect(wake(updated(paused, plain))).toEqual(['n/x']);
      expect(wake(updated(paused, resumed))).toEqual(['n/x']);
      expect(wake(updated(paused, paused))).toEqual([]);
      expect(wake(updated(plain, noted))).toEqual([]);
    }
  });
});

describe('owns', () => {
  const objects = {
    managed: objectOf(pods, ownedBy('a!', 'b')),
    shared: objectOf(pods, ownedBy('a', 'b')),
    orphan: objectOf(pods),
    foreign: objectOf(pods, {
      ownerReferences: [{ apiVersion: 'v1', kind: 'Web', name: 'a', uid: 'u', controller: true }],
    }),
    otherVersion: objectOf(pods, {
      ownerReferences: [{ apiVersion: 'example.com/v1beta1', kind: 'Web', name: 'a', uid: 'u', controller: true }],
    }),
  };

  it('wakes the owner that manages the object; when another one does, both', () => {
    const wake = wakes({ owns: [pods] });
    expect(wake(added(objects.managed))).toEqual(['n/a']);
    expect(wake(deleted(objects.managed))).toEqual(['n/a']);
    expect(wake(added(objects.otherVersion))).toEqual(['n/a']);
    for (const each of [objects.shared, objects.orphan, objects.foreign]) expect(wake(added(each))).toEqual([]);
    expect(wake(updated(objects.managed, objectOf(pods, ownedBy('c!'))))).toEqual(['n/a', 'n/c']);
    expect(wake(updated(objects.managed, objects.orphan))).toEqual(['n/a']);
    expect(wake(updated(objects.orphan, objects.managed))).toEqual(['n/a']);
  });

  it('wakes each owner where any counts', () => {
    const wake = wakes({ owns: [{ ...pods, owner: 'any' }] });
    expect(wake(added(objects.managed))).toEqual(['n/a', 'n/b']);
    expect(wake(updated(objects.shared, objectOf(pods, ownedBy('b', 'c'))))).toEqual(['n/a', 'n/b', 'n/c']);
    expect(wake(updated(objects.shared, objects.orphan))).toEqual(['n/a', 'n/b']);
  });

  it('wakes a cluster-scoped owner of a namespaced object, by its name alone', () => {
    expect(wakes({ owns: [pods] }, { of: clusterWebs })(added(objects.managed))).toEqual(['a']);
  });

  it('keeps to its own namespaces, to those of `for`, and to what is cached', () => {
    const inM = objectOf(pods, { namespace: 'm', ...ownedBy('a!') });
    expect(wakes({ owns: [{ ...pods, namespaces: ['n'] }] })(added(inM))).toEqual([]);
    expect(wakes({ owns: [{ ...pods, namespaces: ['m'] }] })(added(inM))).toEqual(['m/a']);
    expect(wakes({ for: { ...webs, namespaces: ['n'] }, owns: [pods] })(added(inM))).toEqual([]);
    expect(wakes({ owns: [pods] }, { cached: ['n'] })(added(inM))).toEqual([]);
  });

  it('leaves it to the cache to tell whether an owner is selected', () => {
    const labelSelector = { matchLabels: { a: '1' } };
    expect(wakes({ for: { ...webs, labelSelector }, owns: [pods] })(added(objects.managed))).toEqual([
      { view: 'view:', entries: [], keys: ['n/a'] },
    ]);
  });

  it('asks the cache once for all keys that a change names, without a copy of the selector', () => {
    const labelSelector = { matchLabels: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`a-${at}`, '1'])) };
    const names = Array.from({ length: 10_000 }, (_, at) => `web-${at}`);
    const watches = [{ ...pods, map: { by: 'field', path: 'spec.names' } }] as const;
    const wake = wakes({ for: { ...webs, labelSelector }, watches: [...watches] });
    const keys = names.map((name) => `n/${name}`);
    expect(wake(added(objectOf(pods, {}, { spec: { names } })))).toEqual([{ view: 'view:', entries: [], keys }]);
  });

  it('asks the cache once for the keys that an object names before and after a change', () => {
    const labelSelector = { matchLabels: { a: '1' } };
    const watches = [{ ...pods, map: { by: 'field', path: 'spec.names' } }] as const;
    const wake = wakes({ for: { ...webs, labelSelector }, watches: [...watches] }, { cached: ['n', 'm'] });
    const naming = (...names: string[]) => objectOf(pods, {}, { spec: { names } });
    expect(wake(updated(naming('a', 'b', 'm/a'), naming('b', 'c')))).toEqual([
      { view: 'view:n', entries: [], keys: ['n/b', 'n/c', 'n/a'] },
      { view: 'view:m', entries: [], keys: ['m/a'] },
    ]);
  });

  it('hears the same kind twice, each with its own rules', () => {
    const wake = wakes({
      owns: [
        { ...pods, predicate: { changed: 'labels' } },
        { ...pods, owner: 'any', predicate: { changed: 'annotations' } },
      ],
    });
    const changed = (part: Partial<ObjectMeta>) => objectOf(pods, { ...ownedBy('a!', 'b'), ...part });
    expect(wake(updated(objects.managed, changed({ labels: { l: '' } })))).toEqual(['n/a']);
    expect(wake(updated(objects.managed, changed({ annotations: { l: '' } })))).toEqual(['n/a', 'n/b']);
    expect(wake(updated(objects.managed, changed({ finalizers: ['f'] })))).toEqual([]);
  });
});

describe('watches', () => {
  const named = (names: unknown) => objectOf(pods, {}, { spec: names });
  const values = [
    ['a', ['n/a']],
    ['m/a', ['m/a']],
    ['', []],
    ['m/', []],
    ['/a', ['/a']],
    ['m/a/b', []],
    ['a b', []],
    ['.'.repeat(300), []],
  ] as const;

  it.each(values.filter(([value]) => value !== '/a'))('an annotation that says %j leads to %j', (value, keys) => {
    const wake = wakes({ watches: [{ ...pods, map: { by: 'annotation', annotation: 'to' } }] });
    expect(wake(added(objectOf(pods, { annotations: { to: value } })))).toEqual(keys);
  });

  it.each(['a/b', '..', '.', '', 'a%2fb', 'm/a', '\ud800', 'a'.repeat(2000)])(
    'an owner called %j leads nowhere',
    (name) => {
      const ownerReferences = [{ ...webs, name, uid: 'x', controller: true }];
      const owned = objectOf(pods, { ownerReferences });
      for (const labelSelector of [undefined, { matchLabels: { app: 'web' } }]) {
        const reconciled = { ...webs, ...(labelSelector ? { labelSelector } : {}) };
        expect(wakes({ for: reconciled, owns: [pods] })(added(owned))).toEqual([]);
        expect(
          wakes({ for: reconciled, watches: [{ ...pods, map: { by: 'owner', owner: 'any' } }] })(added(owned)),
        ).toEqual([]);
      }
    },
  );

  it.each(['constructor', 'toString', '__proto__.a'])(
    'a key that each object inherits is no label of it: %s',
    (name) => {
      const object = objectOf(pods, { labels: { app: 'web' }, annotations: {} });
      if (!name.includes('_')) {
        expect(wakes({ watches: [{ ...pods, map: { by: 'label', label: name } }] })(added(object))).toEqual([]);
        expect(wakes({ watches: [{ ...pods, map: { by: 'annotation', annotation: name } }] })(added(object))).toEqual(
          [],
        );
      }
      expect(wakes({ watches: [{ ...pods, map: { by: 'field', path: `spec.${name}` } }] })(added(object))).toEqual([]);
    },
  );

  it('by label, annotation, field: to what it names and what it named', () => {
    const of = (map: Description['watches'][number]['map']) => wakes({ watches: [{ ...pods, map }] });
    const byLabel = of({ by: 'label', label: 'to' });
    const labelled = (to: string) => objectOf(pods, { labels: { to } });
    expect(byLabel(added(labelled('a')))).toEqual(['n/a']);
    expect(byLabel(updated(labelled('a'), labelled('b')))).toEqual(['n/a', 'n/b']);
    expect(byLabel(updated(labelled('a'), objectOf(pods)))).toEqual(['n/a']);
    expect(byLabel(deleted(labelled('a')))).toEqual(['n/a']);
    const byAnnotation = of({ by: 'annotation', annotation: 'to' });
    const annotated = (to: string) => objectOf(pods, { annotations: { to } });
    expect(byAnnotation(updated(annotated('a'), annotated('m/b')))).toEqual(['m/b', 'n/a']);
    const byField = of({ by: 'field', path: 'spec.refs.name' });
    const [old, now] = [
      ['a', 'b'],
      ['b', 'c', 7],
    ].map((names) => named({ refs: names.map((name) => ({ name })) }));
    if (!old || !now) throw new Error('no objects');
    expect(byField(added(old))).toEqual(['n/a', 'n/b']);
    expect(byField(updated(old, now))).toEqual(['n/7', 'n/a', 'n/b', 'n/c']);
    expect(byField(added(named({ refs: 'x' })))).toEqual([]);
  });

  it('by name, of kinds with and without namespaces', () => {
    const map = { by: 'annotation', annotation: 'to' } as const;
    const to = (of: Resource, value: string) => added(objectOf(of, { annotations: { to: value } }));
    const toCluster = wakes({ watches: [{ ...pods, map }] }, { of: clusterWebs });
    expect(toCluster(to(pods, 'a'))).toEqual(['a']);
    expect(toCluster(to(pods, 'm/a'))).toEqual([]);
    const fromCluster = wakes({ watches: [{ ...nodes, map }] });
    expect(fromCluster(to(nodes, 'a'))).toEqual([]);
    expect(fromCluster(to(nodes, 'm/a'))).toEqual(['m/a']);
    const scoped = wakes({ for: { ...webs, namespaces: ['n'] }, watches: [{ ...pods, map }] });
    expect(scoped(to(pods, 'm/a'))).toEqual([]);
  });

  it('by owner, as owned kinds do', () => {
    const shared = objectOf(pods, ownedBy('a', 'b!'));
    expect(wakes({ watches: [{ ...pods, map: { by: 'owner' } }] })(added(shared))).toEqual(['n/b']);
    expect(wakes({ watches: [{ ...pods, map: { by: 'owner', owner: 'any' } }] })(added(shared))).toEqual([
      'n/a',
      'n/b',
    ]);
  });

  it('by all: to every key in the scope, wherever the object is', () => {
    const watches = [{ ...pods, map: { by: 'all' } }] as const;
    const change = updated(objectOf(pods), objectOf(pods, { labels: { a: '' } }));
    expect(wakes({ watches })(change)).toEqual([{ view: 'view:', entries: [] }]);
    const namespaces = ['n', 'm'];
    expect(wakes({ for: { ...webs, namespaces }, watches })(change)).toEqual([
      { view: 'view:', entries: ['namespace:n'] },
      { view: 'view:', entries: ['namespace:m'] },
    ]);
    expect(wakes({ for: { ...webs, namespaces }, watches }, { cached: ['m', 'o'] })(change)).toEqual([
      { view: 'view:m', entries: ['namespace:m'] },
    ]);
  });

  it('by index and selector: in its own namespace, within the scope', () => {
    const labelSelector = { matchLabels: { tier: 'front' } };
    const watches = [
      { ...pods, map: { by: 'index', index: 'field:spec.pod' } },
      { ...pods, map: { by: 'selector', path: 'spec.selector' } },
    ] as const;
    const wake = wakes({ for: { ...webs, namespaces: ['n'], labelSelector }, watches: [...watches] });
    expect(wake(added(objectOf(pods, { namespace: 'm' })))).toEqual([]);
    expect(wake(added(objectOf(pods, { labels: { app: 'w' } })))).toEqual([
      { view: 'view:', entries: ['namespace:n', 'field:spec.pod=x'], declared: 'field:spec.pod' },
      {
        view: 'view:',
        entries: ['namespace:n'],
        declared: 'selector:spec.selector',
        selector: { path: 'spec.selector', labels: { app: 'w' } },
      },
    ]);
    const long = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`${'x'.repeat(200)}/${at}`, 'y']));
    expect(wakes({ watches: [watches[1]] })(added(objectOf(pods, { labels: long })))).toEqual([
      { view: 'view:', entries: ['namespace:n'] },
    ]);
    const changed = updated(objectOf(pods, { labels: { app: 'v' } }), objectOf(pods, { labels: { app: 'w' } }));
    const selectors = wakes({ watches: [watches[1]] })(changed) as Lookup[];
    expect(selectors.map(({ selector }) => selector?.labels['app'])).toEqual(['w', 'v']);
  });

  it('by an expression: one name or several; to all when it fails', () => {
    const of = (expression: string) => wakes({ watches: [{ ...pods, map: { by: 'cel', expression } }] });
    const listed = (names: unknown[]) => named({ names });
    expect(of('object.metadata.name + "-web"')(added(objectOf(pods)))).toEqual(['n/x-web']);
    expect(of('object.spec.names')(updated(listed(['a', 'm/b']), listed(['c'])))).toEqual(['m/b', 'n/a', 'n/c']);
    for (const failing of ['object.spec.names', 'object.metadata.name == "x"', 'object.metadata']) {
      expect(of(failing)(added(objectOf(pods))), failing).toEqual([{ view: 'view:', entries: [] }]);
    }
    expect(of('object.spec.names')(added(listed([1])))).toEqual([{ view: 'view:', entries: [] }]);
  });

  it('hears nothing of events that its predicate keeps out', () => {
    const predicate = { all: [{ cel: 'object.spec.on' }, { changed: 'labels' }] } as const;
    const wake = wakes({ watches: [{ ...pods, predicate, map: { by: 'label', label: 'to' } }] });
    const [on, off] = [true, false].map(
      (value) => (to: string) => objectOf(pods, { labels: { to } }, { spec: { on: value } }),
    );
    if (!on || !off) throw new Error('no objects');
    expect(wake(added(on('a')))).toEqual(['n/a']);
    expect(wake(added(off('a')))).toEqual([]);
    expect(wake(updated(on('a'), on('b')))).toEqual(['n/a', 'n/b']);
    expect(wake(updated(on('a'), on('a')))).toEqual([]);
    expect(wake(updated(on('a'), off('b')))).toEqual([]);
    // An expression that fails decides nothing: the rest does.
    expect(wake(added(objectOf(pods, { labels: { to: 'a' } })))).toEqual(['n/a']);
  });
});

describe('a controller that has used up its processor time', () => {
  const many = Array.from({ length: 3000 }, (_, at) => `v${at}`);
  const HOSTILE = 'object.data.many.all(a, object.data.many.all(b, object.data.many.all(c, a + b != c)))';
  const huge = objectOf(pods, {}, { data: { many } });
  const failures: ExpressionFailure[] = [];
  const told = (): ExpressionFailure[] => failures.splice(0);
  const onFailure = (failure: ExpressionFailure): void => void failures.push(failure);
  const hostile = { ...pods, predicate: { cel: HOSTILE } };

  it('misses the change that its mapper has no time for, and is told so', () => {
    told();
    const wake = wakes(
      { watches: [{ ...pods, map: { by: 'cel', expression: `${HOSTILE} ? "a" : "b"` } }] },
      { onFailure },
    );
    // On a busy machine an evaluation is ended after a quarter of its limit.
    for (let count = 0; count < 40; count += 1) expect(() => wake(added(huge))).toThrow(HandlerCutOffError);
    const all = told();
    expect(all).toHaveLength(40);
    expect(all[0]).toEqual({ field: 'watches.0.map.expression', reason: 'time', message: 'took longer than 100 ms' });
    expect(all.at(-1)?.message).toContain('has used up its processor time');
    expect(JSON.stringify(all)).not.toContain('v2999');
  });

  it('hears of everything that its predicates have no time for', () => {
    told();
    const wake = wakes({ for: { ...webs, predicate: { cel: HOSTILE } } }, { onFailure });
    const web = objectOf(webs, {}, { data: { many } });
    for (let count = 0; count < 10; count += 1) expect(wake(added(web))).toEqual(['n/x']);
    expect(told().map(({ field, reason }) => `${field} ${reason}`)).toContain('for.predicate.cel time');
  });

  it('spends no more on many sources of one change than on one', () => {
    told();
    const description = { watches: Array.from({ length: 16 }, () => ({ ...hostile, map: { by: 'all' as const } })) };
    const wake = wakes(description, { onFailure });
    const fromMs = threadMs();
    wake(added(huge));
    // 16 of them, each with a limit of its own, would take 1600.
    expect(threadMs() - fromMs).toBeLessThan(400);
    expect(told().filter(({ message }) => message.startsWith('took longer')).length).toBeGreaterThan(0);
  });

  it('still follows owners, labels and the fields of small objects', () => {
    const wake = wakes(
      {
        owns: [pods],
        watches: [
          { ...hostile, map: { by: 'all' } },
          { ...pods, map: { by: 'label', label: 'app' } },
          { ...pods, map: { by: 'field', path: 'spec.ref' } },
        ],
      },
      { onFailure },
    );
    expect(() => {
      for (let count = 0; count < 40; count += 1) wake(added(huge));
    }).toThrow(HandlerCutOffError);
    const small = objectOf(pods, { ...ownedBy('a!'), labels: { app: 'b' } }, { spec: { ref: 'c' } });
    expect(wake(added(small)).slice(0, 3)).toEqual(['n/a', 'n/b', 'n/c']);
  });

  it('hears of a change of large labels that it has no time to compare, and is told so', () => {
    told();
    const wake = wakes(
      { watches: [{ ...hostile, map: { by: 'all' } }], for: { ...webs, predicate: { changed: 'labels' } } },
      { onFailure },
    );
    const labelled = (count: number) =>
      objectOf(webs, { labels: Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${at}`, ''])) });
    expect(wake(updated(labelled(2000), labelled(2000)))).toEqual([]);
    for (let count = 0; count < 100 && !failures.at(-1)?.message.startsWith('has used up'); count += 1) {
      wake(added(huge));
    }
    told();
    expect(wake(updated(labelled(2000), labelled(2000)))).toEqual(['n/x']);
    expect(told()).toMatchObject([{ field: 'for.predicate', reason: 'time' }]);
    expect(wake(updated(labelled(1000), labelled(1000)))).toEqual([]);
    expect(told()).toEqual([]);
  });

  it('misses a change of a huge object that a field mapper has no time for', () => {
    told();
    const wake = wakes({ watches: [{ ...hostile, map: { by: 'field', path: 'data.more' } }] }, { onFailure });
    const more = Array.from({ length: 20_000 }, (_, at) => `v${at}`);
    const larger = objectOf(pods, {}, { data: { many, more } });
    // On a busy machine the budget fills again while this process waits for the processor.
    expect(() => {
      for (let count = 0; count < 200; count += 1) wake(added(larger));
    }).toThrow(HandlerCutOffError);
    expect(told().at(-1)).toMatchObject({ field: 'watches.0.map', reason: 'time' });
  });
});

const naming = (count: number): KubernetesObject =>
  objectOf(pods, {}, { data: { names: Array.from({ length: count }, (_, at) => `k${at}`) } });

it('an object that names more keys than can be stored one by one leads to all', () => {
  const wakesFor = () => wakes({ watches: [{ ...pods, map: { by: 'field', path: 'data.names' } }] });
  expect(wakesFor()(added(naming(10_000)))).toHaveLength(10_000);
  expect(wakesFor()(added(naming(10_001)))).toEqual([{ view: 'view:', entries: [] }]);
});

it('an object with more labels than a lookup takes along leads to all', () => {
  const wake = wakes({ watches: [{ ...pods, map: { by: 'selector', path: 'spec.selector' } }] });
  const labelled = (count: number) =>
    objectOf(pods, { labels: Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${at}`, ''])) });
  expect(wake(added(labelled(50)))).toMatchObject([{ selector: { path: 'spec.selector' } }]);
  expect(wake(added(labelled(51)))).toEqual([{ view: 'view:', entries: ['namespace:n'] }]);
});

it('many objects that name many keys are missed at some point, since each key costs the gateway time', () => {
  const failures: ExpressionFailure[] = [];
  const onFailure = (failure: ExpressionFailure): void => void failures.push(failure);
  const wake = wakes(
    {
      watches: [
        { ...pods, map: { by: 'label', label: 'a' } },
        { ...pods, map: { by: 'field', path: 'data.names' } },
      ],
    },
    { onFailure },
  );
  expect(() => {
    for (let count = 0; count < 10; count += 1) wake(added(naming(5000)));
  }).toThrow(HandlerCutOffError);
  expect(failures).toMatchObject([{ field: 'watches.1.map', reason: 'time' }]);
  expect(wake(added(objectOf(pods, { labels: { a: 'b' } })))).toEqual(['n/b']);
});
