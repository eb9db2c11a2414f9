import { describe, expect } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

/** Kinds of which a cluster at rest has few: one that holds any JSON, and one that holds next to nothing. */
const revisions = resource<KubernetesObject & { data?: object }>('apps/v1', 'ControllerRevision');
const leases = resource('coordination.k8s.io/v1', 'Lease');
const { apiVersion, kind } = revisions;

const others = uniqueName('victim');

let cluster: Cluster;
/** The namespace of Mallory. */
let own: string;
let mallory: Tenant;
/** Of all namespaces: it shares the views with all that Mallory declares. */
let shared: Observer;
let hers: Observer;
let web: KubernetesObject;

it.beforeAll(async ({ world }) => {
  const { started } = world;
  ({ cluster, namespace: own } = world);
  await cluster.createNamespace(others);
  started.add(() => cluster.deleteNamespace(others));
  await installReconcileFunctions(cluster);
  mallory = await new Tenant(cluster, own).create();
  const victim = await new Tenant(cluster, others).create();
  const rules = [
    { apiGroups: ['apps'], resources: ['controllerrevisions'] },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
  ];
  await mallory.allow('own', rules);
  await victim.allowEverywhere(others, rules);
  started.add(() => victim.denyEverywhere(others));
  const setting = { ...world.setting, secret: victim.secret };
  shared = started.keep(await openObserver(setting, { name: 'shared', for: revisions, owns: [leases] }));
  hers = started.keep(await openObserver({ ...setting, secret: mallory.secret }, { name: 'hers', for: revisions }));
  const gateway = started.keep(await openGateway(setting, [], settingsFor([own, others], [shared.url, hers.url])));
  await untilReady(gateway.url);
  await victim.declare('shared', {
    endpoint: { url: shared.url },
    for: { apiVersion, kind },
    owns: [leases].map(kindOf),
    // The gateway gives a run back when a tenth of this passes before it is sent, and the next run has no reasons.
    timeoutSeconds: 900,
  });
  await victim.until('shared', 'Ready', { status: 'True' });
  web = await cluster.create(revisions, { metadata: { namespace: others, name: 'web' }, revision: 1, data: {} });
  await victimIsWoken();
});

function kindOf(of: { readonly apiVersion: string; readonly kind: string }) {
  return { apiVersion: of.apiVersion, kind: of.kind };
}

const inOwn = (of: { readonly apiVersion: string; readonly kind: string }) => ({ ...kindOf(of), namespaces: [own] });

function ownedBy(name: string, uid = 'x') {
  return { ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] };
}

/** An object of the victim's, made now, wakes its owner soon, and a change of the owner itself does. */
async function victimIsWoken(): Promise<void> {
  const key = `${others}/web`;
  for (const change of [
    () =>
      cluster.create(leases, {
        metadata: { namespace: others, name: uniqueName('lease'), ...ownedBy('web', web.metadata.uid) },
      }),
    () =>
      cluster.patch(revisions, { namespace: others, name: 'web' }, { metadata: { labels: { at: uniqueName('at') } } }),
  ]) {
    const before = shared.seen({ key }).length;
    const { metadata } = await change();
    await eventually(async () => {
      const told = shared
        .seen({ key })
        .slice(before)
        .flatMap(({ reasons }) => reasons);
      expect(told.map(({ resourceVersion }) => resourceVersion)).toContain(metadata.resourceVersion);
    });
  }
}

/** Mallory's only function, as she declares it now, once it is ready. */
async function declares(spec: Readonly<Record<string, unknown>>): Promise<void> {
  // A function that is declared again waits for this long, until its last run must be over.
  const timeoutSeconds = 2;
  await mallory.declare('hers', { endpoint: { url: hers.url }, for: inOwn(revisions), timeoutSeconds, ...spec });
  await mallory.until('hers', 'Ready', { status: 'True' });
}

async function removes(): Promise<void> {
  await mallory.remove('hers');
  await eventually(async () => expect(await mallory.condition('hers', 'Ready')).toBeUndefined());
}

describe('what is no name', () => {
  it('as the name or the UID of an owner leads nowhere, and stops nothing', async () => {
    const names = ['a/b', '..', '.', 'a%2fb', '../../api', 'x\ny', '\u001b[2J', 'x\u202ey', 'n'.repeat(3000)];
    const references = [
      ...names.map((name) => ownedBy(name)),
      ownedBy('a', `x\nnamespace:${others}\norphan:${others}`),
    ];
    for (const reference of references) {
      await cluster.create(leases, { metadata: { namespace: own, name: uniqueName('owned'), ...reference } });
    }
    await victimIsWoken();
    await eventually(async () => expect(shared.keys()).toContain(`${own}/a`));
    const keys = shared.keys();
    for (const name of names) expect(keys).not.toContain(`${own}/${name}`);
  });

  it.each([
    'mine.example.com/../../api/v1',
    '.../../../api/v1',
    'apps/./v1',
    'apps//v1',
    'apps/v1/',
    '/v1',
    'apps/%2e%2e',
    '..',
    'v1\n',
    `${'a'.repeat(400)}/v1`,
  ])('as an API version is refused by the apiserver itself: %j', async (text) => {
    const wrong = { apiVersion: text, kind: 'Pod', namespaces: [own] };
    const declared = (spec: object) =>
      mallory.declare('hers', { endpoint: { url: hers.url }, for: inOwn(revisions), ...spec });
    await expect(declared({ for: wrong })).rejects.toThrow('spec.for.apiVersion');
    await expect(declared({ owns: [wrong] })).rejects.toThrow('spec.owns[0].apiVersion');
    await expect(declared({ reads: [wrong] })).rejects.toThrow('spec.reads[0].apiVersion');
  });

  it.each<[string, object]>([
    ['spec.for.kind', { for: { apiVersion: 'v1', kind: '../Pod' } }],
    ['spec.for.namespaces', { for: { ...kindOf(revisions), namespaces: ['..'] } }],
    ['spec.serviceAccountName', { serviceAccountName: 'a..b' }],
    ['spec.signingSecret.name', { signingSecret: { name: '../signing' } }],
    ['spec.signingSecret.key', { signingSecret: { name: 'signing', key: 'a/b' } }],
    ['spec.indexes[0].index', { indexes: [{ ...kindOf(leases), index: 'label:a\nb' }] }],
    [
      'spec.watches[0].map.annotation',
      { watches: [{ ...kindOf(leases), map: { by: 'annotation', annotation: '__proto__' } }] },
    ],
    ['spec.watches[0].map.label', { watches: [{ ...kindOf(leases), map: { by: 'label', label: 'a\nb' } }] }],
    [
      'spec.watches[0].map.path',
      { watches: [{ ...kindOf(leases), map: { by: 'field', path: `a${'.a'.repeat(300)}` } }] },
    ],
  ])('is refused by the apiserver itself: %s', async (field, spec) => {
    const declared = mallory.declare('hers', { endpoint: { url: hers.url }, for: inOwn(revisions), ...spec });
    await expect(declared).rejects.toThrow(field);
  });
});

describe('a key that every object of JavaScript inherits', () => {
  it.each<[string, object, object, string[]]>([
    [
      'constructor as a label',
      { by: 'label', label: 'constructor' },
      { labels: { constructor: 'to-label' } },
      ['to-label'],
    ],
    [
      'toString as an annotation',
      { by: 'annotation', annotation: 'toString' },
      { annotations: { toString: 'to-annotation' } },
      ['to-annotation'],
    ],
    [
      'constructor in a path',
      { by: 'field', path: 'metadata.labels.constructor' },
      { labels: { constructor: 'to-field' } },
      ['to-field'],
    ],
    ['__proto__ in a path', { by: 'field', path: '__proto__.constructor.name' }, {}, []],
  ])('is one like any other: %s', async (_what, map, metadata, names) => {
    await declares({ watches: [{ ...inOwn(leases), map }] });
    const before = hers.count;
    // Objects without it come first: what they inherit names nothing, and stops nothing.
    const watched: string[] = [];
    for (const more of [{ labels: { app: 'web' }, annotations: { a: 'b' } }, {}, metadata]) {
      const name = uniqueName('watched');
      await cluster.create(leases, { metadata: { namespace: own, name, ...more } });
      watched.push(name);
    }
    await victimIsWoken();
    await eventually(async () => {
      const keys = new Set(hers.seen({ from: before }).map(({ key }) => key));
      expect([...keys]).toEqual(names.map((name) => `${own}/${name}`));
    });
    // They would name keys of the next function, too, as soon as it lists them.
    for (const name of watched) await cluster.delete(leases, { namespace: own, name });
    await removes();
  });
});

describe('a selector in an object', () => {
  it('that is none selects nothing, and stops nothing', async () => {
    const wrong = [
      { matchExpressions: 5, other: {} },
      { matchLabels: 'app', matchExpressions: null },
      { matchExpressions: [null] },
      { matchExpressions: [{ key: 'app', operator: 'constructor' }] },
      { matchExpressions: [{ key: 'app', operator: 'In', values: 5 }] },
      { matchExpressions: {} },
      { matchLabels: { app: 5 } },
      [],
      5,
    ];
    for (const [at, selector] of wrong.entries()) {
      await cluster.create(revisions, {
        metadata: { namespace: own, name: `wrong-${at}` },
        revision: 1,
        data: { selector },
      });
    }
    const right = { matchExpressions: [{ key: 'app', operator: 'In', values: ['web'] }] };
    await cluster.create(revisions, {
      metadata: { namespace: own, name: 'right' },
      revision: 1,
      data: { selector: right },
    });
    const watches = [{ ...inOwn(leases), map: { by: 'selector', path: 'data.selector' } }];
    await declares({ watches, timeoutSeconds: 900 });
    // All keys once, as of any new controller.
    await eventually(async () => expect(new Set(hers.seen().map(({ key }) => key))).toContain(`${own}/right`));
    const before = hers.count;
    const lease = await cluster.create(leases, {
      metadata: { namespace: own, name: uniqueName('watched'), labels: { app: 'web' } },
    });
    await victimIsWoken();
    const { resourceVersion } = lease.metadata;
    await eventually(async () => {
      const woken = hers
        .seen({ from: before })
        .filter(({ reasons }) => reasons.some((each) => each.resourceVersion === resourceVersion));
      expect(woken.map(({ key }) => key)).toEqual([`${own}/right`]);
    });
    await removes();
  });
});
