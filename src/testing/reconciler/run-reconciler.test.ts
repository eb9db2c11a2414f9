import { beforeEach, describe, expect, it } from 'vitest';
import { type KubernetesObject, resource } from '../../core/index.ts';
import { controller, RetryAfterError, setControllerReference, TerminalError } from '../../function/index.ts';
import { ConfigMap, Node, Pod } from '../../function/kinds/index.ts';
import { MemoryApiserver } from './memory-apiserver.ts';
import { runReconciler } from './run-reconciler.ts';
import { testContext } from './test-context.ts';

interface Site extends KubernetesObject {
  spec: { title: string };
  status?: { phase: string };
}
const Site = resource<Site>('example.com/v1', 'Site');
const key = { namespace: 'a', name: 'blog' };

/** Copies its title into a ConfigMap of its own, and reports that. */
const publisher = controller({ name: 'publisher', for: Site, owns: [ConfigMap] }).reconcile(
  async (request, { cache, api }) => {
    const site = await cache.get(Site, request);
    if (!site) return;
    if (site.spec.title === '') throw new TerminalError('a site needs a title');
    const { items } = await cache.list(ConfigMap, { controlledBy: site });
    const data = { title: site.spec.title };
    if (items.length === 0) {
      await api.create(ConfigMap, setControllerReference(Site, site, { metadata: { ...key }, data }));
      return { requeueAfterSeconds: 5 };
    }
    await api.replace(Site, { ...site, status: { phase: 'Published' } }, 'status');
  },
);

let apiserver: MemoryApiserver;
const run = (of = publisher) => runReconciler(of, key, { apiserver });

beforeEach(() => {
  apiserver = new MemoryApiserver({
    objects: [{ apiVersion: 'example.com/v1', kind: 'Site', metadata: key, spec: { title: 'Blog' } }],
  });
});

describe('runReconciler', () => {
  it('names all writes to kinds that the controller reads, and a hundred others', async () => {
    const cleaner = controller({ name: 'cleaner', for: Site, owns: [ConfigMap] }).reconcile(async (_, { api }) => {
      await api.deleteCollection(Pod, { namespace: 'a' });
      await api.deleteCollection(ConfigMap, { namespace: 'a' });
    });
    for (const [of, kind] of Array.from({ length: 240 }, (_, at) => [at, at % 2 ? 'Pod' : 'ConfigMap'] as const)) {
      apiserver.put({ apiVersion: 'v1', kind, metadata: { namespace: 'a', name: `x-${of}` } });
    }
    const { outcome } = await run(cleaner);
    const kinds = ('writes' in outcome ? (outcome.writes ?? []) : []).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'ConfigMap')).toHaveLength(120);
    expect(kinds.filter((kind) => kind === 'Pod')).toHaveLength(100);
  });

  it('lists custom resources by any field, as if a definition made it selectable', async () => {
    apiserver.put({
      apiVersion: 'example.com/v1',
      kind: 'Site',
      metadata: { ...key, name: 'shop' },
      spec: { title: 'S' },
    });
    let found: readonly string[] = [];
    const finder = controller({ name: 'finder', for: Site }).reconcile(async (_, { cache }) => {
      const { items } = await cache.list(Site, { fieldSelector: 'spec.title=Blog' });
      found = items.map(({ metadata }) => metadata.name);
    });
    expect((await run(finder)).outcome).toMatchObject({ status: 'done' });
    expect(found).toEqual(['blog']);
  });

  it('tells what the gateway would be told, and what was written', async () => {
    const first = await run();
    expect(first.outcome).toMatchObject({
      status: 'done',
      requeueAfterSeconds: 5,
      writes: [{ apiVersion: 'v1', kind: 'ConfigMap', ...key, uid: expect.any(String) }],
    });
    expect(first.writes).toMatchObject([
      { verb: 'create', resource: 'configmaps', ...key, body: { data: { title: 'Blog' } }, status: 201 },
    ]);
    expect((await run()).writes).toMatchObject([{ verb: 'update', resource: 'sites', subresource: 'status' }]);
    expect(apiserver.object(Site, key)?.status).toEqual({ phase: 'Published' });
    expect(apiserver.writes).toHaveLength(2);
    apiserver.remove(Site, key);
    apiserver.clearRequests();
    expect(await run()).toEqual({ outcome: { status: 'done', writes: [] }, error: undefined, writes: [] });
    expect(apiserver.requests).toEqual([]);
  });

  it('tells of errors, and gives what was thrown', async () => {
    apiserver.put({ apiVersion: 'example.com/v1', kind: 'Site', metadata: key, spec: { title: '' } });
    const { outcome, error } = await run();
    expect(outcome).toEqual({ status: 'terminal', message: 'a site needs a title', writes: [] });
    expect(error).toBeInstanceOf(TerminalError);
    const later = controller({ name: 'later', for: Site }).reconcile(async () => {
      throw new RetryAfterError('not yet', 7);
    });
    expect((await run(later)).outcome).toMatchObject({ status: 'error', retryAfterSeconds: 7 });
  });

  it('gives the reasons and the attempt, and ends at the time given', async () => {
    const slow = controller({ name: 'slow', for: Site }).reconcile(async (request, { signal, api }) => {
      expect(request).toMatchObject({ attempt: 3, reasons: [{ type: 'updated' }] });
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await api.delete(Site, request);
    });
    const reasons = [{ type: 'updated' }] as const;
    const options = { apiserver, attempt: 3, reasons, timeoutSeconds: 0.05 };
    const { outcome, writes } = await runReconciler(slow, key, options);
    expect(outcome).toMatchObject({ status: 'error', message: expect.stringContaining('the run is over') });
    expect(writes).toEqual([]);
  });

  it('reads only what the controller declares', async () => {
    const nosy = controller({ name: 'nosy', for: Site }).reconcile(async (_, { cache }) => {
      await cache.list(Pod);
    });
    expect((await run(nosy)).outcome).toMatchObject({
      status: 'error',
      message: expect.stringContaining('v1/Pod is not cached for this controller'),
    });
  });
});

describe('faults', () => {
  it('refuse the requests that fit, so many times', async () => {
    apiserver.fail({ verb: 'create', resource: 'configmaps' }, { code: 409, reason: 'AlreadyExists' }, 2);
    for (let time = 0; time < 2; time += 1) {
      const { outcome, error, writes } = await run();
      expect(outcome).toMatchObject({ status: 'error', writes: [] });
      expect(error).toMatchObject({ code: 409, reason: 'AlreadyExists' });
      expect(writes).toMatchObject([{ verb: 'create', status: 409 }]);
    }
    expect((await run()).outcome.status).toBe('done');
  });

  it.each([
    ['answer-lost', 1],
    ['request-lost', 0],
  ] as const)('leave the outcome unknown when there was no answer (%s)', async (fault, made) => {
    apiserver.fail({ verb: 'create' }, fault);
    expect((await run()).outcome).toMatchObject({ status: 'unknown' });
    expect(apiserver.objects(ConfigMap)).toHaveLength(made);
    expect(apiserver.writes[0]).not.toHaveProperty('status');
  });

  it('are the interceptor`s to choose, with the Retry-After that the SDK waits for', async () => {
    let times = 0;
    apiserver.intercept = ({ verb }) =>
      verb === 'create' && times++ === 0 ? { code: 429, retryAfterSeconds: 0 } : undefined;
    const { outcome, writes } = await run();
    expect(outcome.status).toBe('done');
    expect(writes.map(({ status }) => status)).toEqual([429, 201]);
  });
});

describe('testContext', () => {
  it('reads as the cache does, and writes with a record', async () => {
    const { cache, api } = testContext({ apiserver, cached: [Site] });
    const site = await cache.get(Site, key);
    expect(site?.spec).toEqual({ title: 'Blog' });
    expect((await cache.list(Site, { orphansIn: 'a' })).items).toHaveLength(1);
    expect((await cache.list(Site, { namespace: 'b' })).items).toEqual([]);
    expect(await cache.get(Site, { name: 'blog' })).toBeUndefined();
    const index = { spec: 'field:spec.title', value: 'Blog' } as const;
    expect((await cache.list(Site, { index })).items).toHaveLength(1);
    await expect(cache.list(Site, { labelSelector: 'a in' })).rejects.toThrow('unable to parse');
    expect(apiserver.requests).toEqual([]);
    await api.delete(Site, key);
    expect(apiserver.writes).toMatchObject([{ verb: 'delete', resource: 'sites', ...key, status: 200 }]);
  });
});

describe('objects of an owner, in the cache of testContext', () => {
  const copyOf = (uid: string, kind: string) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      namespace: 'b',
      name: `copy-${kind}`,
      ownerReferences: [{ apiVersion: 'v1', kind, name: 'x', uid, controller: true }],
    },
  });

  beforeEach(() => {
    for (const kind of ['Pod', 'Node']) apiserver.put(copyOf('u', kind));
  });

  it('are found by a UID alone if their owner is cluster-scoped, as anyone may copy a UID', async () => {
    const { cache } = testContext({ apiserver, cached: [ConfigMap, Node] });
    const { items } = await cache.list(ConfigMap, { controlledBy: { metadata: { uid: 'u' } } });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['copy-Node']);
  });

  it('are not asked for by a UID alone where all kinds are namespaced, nor by an owner reference', async () => {
    const { cache } = testContext({ apiserver, cached: [ConfigMap] });
    const [reference] = copyOf('u', 'Pod').metadata.ownerReferences;
    if (!reference) throw new Error('unreachable');
    // @ts-expect-error -- it does not say the namespace of the owner.
    const asked = cache.list(ConfigMap, { controlledBy: { metadata: reference } });
    await expect(asked).rejects.toThrow('an owner without a namespace');
  });
});

describe('a MemoryApiserver', () => {
  it('knows kinds by their manifest, and others as it is told', async () => {
    const Policy = resource('example.com/v1', 'Policy', { plural: 'policies', namespaced: false });
    const policy = { apiVersion: 'example.com/v1', kind: 'Policy', metadata: { name: 'p' } };
    const told = new MemoryApiserver({ objects: [policy], resources: [Policy], now: () => Date.UTC(2026, 0, 1) });
    expect(told.object(Policy, { name: 'p' })).toEqual({
      ...policy,
      metadata: {
        name: 'p',
        uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2026-01-01T00:00:00Z',
      },
    });
  });

  it('keeps a status where there is no subresource for it', async () => {
    const plain = new MemoryApiserver({ withoutStatus: [Site] });
    const { api } = testContext({ apiserver: plain });
    const made = await api.create(Site, {
      metadata: key,
      spec: { title: 'x' },
      status: { phase: 'Up' },
    } as object as Site);
    expect(made.status).toEqual({ phase: 'Up' });
    expect((await api.replace(Site, { ...made, status: { phase: 'Down' } })).status).toEqual({ phase: 'Down' });
  });

  it('counts what somebody else writes as any write, but for a version or generation of the test`s own', () => {
    const of = () => apiserver.object(Site, key)!;
    const first = of();
    apiserver.put({ ...first, status: { phase: 'Up' } });
    expect(of().metadata).toMatchObject({ uid: first.metadata.uid, generation: 1 });
    expect(Number(of().metadata.resourceVersion)).toBeGreaterThan(Number(first.metadata.resourceVersion));
    apiserver.put({ ...of(), spec: { title: 'Other' } });
    expect(of()).toMatchObject({ metadata: { generation: 2 }, status: { phase: 'Up' } });
    apiserver.put({ ...of(), metadata: { ...key, generation: 7, resourceVersion: '99' } });
    expect(of().metadata).toMatchObject({ uid: first.metadata.uid, generation: 7, resourceVersion: '99' });
  });

  it('counts on from a version beyond a double', async () => {
    const { api } = testContext({ apiserver });
    apiserver.put({ ...apiserver.object(Site, key)!, metadata: { ...key, resourceVersion: '9007199254740993' } });
    expect(apiserver.object(Site, key)?.metadata.resourceVersion).toBe('9007199254740993');
    const made = await api.create(Site, { metadata: { ...key, name: 'next' }, spec: { title: 'x' } });
    expect(made.metadata.resourceVersion).toBe('9007199254740994');
    // A text that is no version leaves the count alone.
    apiserver.put({ ...made, metadata: { ...key, name: 'odd', resourceVersion: 'odd' } });
    expect(apiserver.object(Site, { ...key, name: 'odd' })?.metadata.resourceVersion).toBe('9007199254740995');
  });

  it('gives objects of one name in two tests two identities', () => {
    const objects = [{ apiVersion: 'example.com/v1', kind: 'Site', metadata: key, spec: { title: 'Blog' } }];
    const other = new MemoryApiserver({ objects }).object(Site, key);
    expect(other?.metadata.uid).not.toBe(apiserver.object(Site, key)?.metadata.uid);
  });

  it('shares nothing with those who read and write', async () => {
    const { api } = testContext({ apiserver });
    const read = apiserver.object(Site, key);
    if (read) read.spec.title = 'mine';
    expect(apiserver.object(Site, key)?.spec.title).toBe('Blog');
    expect((await api.get(Site, key))?.spec.title).toBe('Blog');
  });
});
