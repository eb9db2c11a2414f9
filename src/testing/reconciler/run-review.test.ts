import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatJson, type KubernetesObject, parseJson, resource } from '../../core/index.ts';
import { controller } from '../../function/index.ts';
import { ConfigMap, Pod } from '../../function/kinds/index.ts';
import { conversionWebhook, deny, mutatingWebhook, validatingWebhook } from '../../function/webhooks/index.ts';
import { MemoryApiserver } from './memory-apiserver.ts';
import { roundTrip, runConversion, runReview } from './run-review.ts';

interface Widget extends KubernetesObject {
  spec: { size?: number; title: string };
}
interface OldWidget extends KubernetesObject {
  spec: { title: string };
}
const Widget = resource<Widget>('example.com/v2', 'Widget');
const OldWidget = resource<OldWidget>('example.com/v1', 'Widget');
const SIZE = 'example.com/size';

const widgets = controller({
  name: 'widgets',
  for: Widget,
  webhooks: [
    validatingWebhook({ name: 'titles', for: Widget, operations: ['CREATE', 'UPDATE', 'DELETE'] }).validate(
      async ({ operation, object, oldObject, dryRun, userInfo }, context) => {
        const { authenticated, cache, cacheAgeSeconds, api, warn, audit } = context;
        audit('who', `${userInfo.username}${dryRun ? ' (dry run)' : ''}`);
        if (operation === 'DELETE') return deny('stays');
        if (oldObject && oldObject.spec.title !== object.spec.title) warn('the title changes');
        const { items } = await cache.list(Widget, { namespace: object.metadata.namespace ?? '' });
        const others = items.filter(({ metadata }) => metadata.name !== object.metadata.name);
        if (others.some(({ spec }) => spec.title === object.spec.title)) {
          return deny('the title is taken', { causes: [{ field: 'spec.title' }] });
        }
        if (object.spec.title === 'pods') await cache.list(Pod);
        if (object.spec.title === 'live') warn(`live: ${(await api.list(Widget)).items.length}`);
        if (object.spec.title === 'sender') warn(`known: ${authenticated}`);
        if (object.spec.title === 'age') warn(`${cacheAgeSeconds(Widget)} ${cacheAgeSeconds(Pod)}`);
      },
    ),
    mutatingWebhook({ name: 'sizes', for: Widget }).mutate((widget) => {
      widget.spec.size ??= 1;
    }),
    conversionWebhook({ name: 'versions', hub: Widget }).spoke(OldWidget, {
      toHub: ({ spec, metadata }) => {
        const { [SIZE]: size, ...annotations } = metadata.annotations ?? {};
        if (Number.isNaN(Number(size ?? 0))) throw new Error('no number');
        return { spec: { title: spec.title, ...(size && { size: Number(size) }) }, metadata: { annotations } };
      },
      fromHub: ({ spec: { size, title }, metadata }) => ({
        spec: { title },
        metadata: { annotations: { ...metadata.annotations, ...(size ? { [SIZE]: String(size) } : {}) } },
      }),
    }),
  ],
}).reconcile(async () => {});

const widget = (title: string, name = 'b') => ({
  apiVersion: 'example.com/v2',
  kind: 'Widget',
  metadata: { namespace: 'a', name, annotations: {} },
  spec: { title },
});

describe('runReview', () => {
  it('tells the verdict on a create, update and delete, and asks as the client that the test names', async () => {
    const apiserver = new MemoryApiserver({ objects: [widget('one', 'first')] });
    expect(await runReview(widgets, 'titles', { create: widget('two') }, { apiserver })).toEqual({
      allowed: true,
      object: widget('two'),
      warnings: [],
      auditAnnotations: { who: 'test' },
      error: undefined,
    });
    const taken = await runReview(widgets, 'titles', { create: widget('one') }, { apiserver, dryRun: true });
    expect(taken).toMatchObject({
      allowed: false,
      denial: { message: 'the title is taken', code: 422, reason: 'Invalid' },
      auditAnnotations: { who: 'test (dry run)' },
    });
    expect(taken.denial?.details?.causes).toEqual([
      { reason: 'FieldValueInvalid', message: 'the title is taken', field: 'spec.title' },
    ]);
    const update = { update: widget('three'), from: widget('two') };
    expect(await runReview(widgets, 'titles', update, { userInfo: { username: 'alice' } })).toMatchObject({
      allowed: true,
      warnings: ['the title changes'],
      auditAnnotations: { who: 'alice' },
    });
    expect(await runReview(widgets, 'titles', { delete: widget('one') })).toMatchObject({
      allowed: false,
      object: widget('one'),
      denial: { message: 'stays', code: 403 },
    });
  });

  it('gives the live objects, the cache of declared kinds alone, and its age', async () => {
    const apiserver = new MemoryApiserver({ objects: [widget('one', 'first')] });
    expect((await runReview(widgets, 'titles', { create: widget('live') }, { apiserver })).warnings).toEqual([
      'live: 1',
    ]);
    expect((await runReview(widgets, 'titles', { create: widget('age') })).warnings).toEqual(['0 undefined']);
    const cacheAgeSeconds = { 'example.com/v2/Widget': 7 };
    expect((await runReview(widgets, 'titles', { create: widget('age') }, { cacheAgeSeconds })).warnings).toEqual([
      '7 undefined',
    ]);
    const { allowed, error } = await runReview(widgets, 'titles', { create: widget('pods') });
    expect(allowed).toBeUndefined();
    expect(error).toMatchObject({ message: expect.stringMatching(/v1\/Pod is not cached for this controller/) });
  });

  it('comes from an apiserver that the gateway knows', async () => {
    expect((await runReview(widgets, 'titles', { create: widget('sender') })).warnings).toEqual(['known: true']);
  });

  it('tells the object as it would be stored', async () => {
    const { object, patch } = await runReview(widgets, 'sizes', { create: widget('one') });
    expect(object).toEqual({ ...widget('one'), spec: { title: 'one', size: 1 } });
    expect(patch).toEqual([{ op: 'add', path: '/spec/size', value: 1 }]);
    const sized = { ...widget('one'), spec: { title: 'one', size: 2 } };
    const unchanged = await runReview(widgets, 'sizes', { create: sized });
    expect(unchanged).not.toHaveProperty('patch');
    expect(unchanged.object).toEqual(sized);
  });

  it('asks about subresources and connections', async () => {
    const seen: unknown[] = [];
    const pods = controller({
      name: 'pods',
      for: Pod,
      webhooks: [
        validatingWebhook<Pod, { command?: string[] }>({
          name: 'exec',
          for: Pod,
          operations: ['CONNECT'],
          subresources: ['exec'],
        }).validate(({ object, name, namespace, subResource }) => {
          seen.push(object.command, name, namespace, subResource);
        }),
      ],
    }).reconcile(async () => {});
    const connect = { apiVersion: 'v1', kind: 'PodExecOptions', command: ['ls'] };
    const write = { connect, name: 'b', namespace: 'a' };
    expect(await runReview(pods, 'exec', write, { subresource: 'exec' })).toMatchObject({ allowed: true });
    expect(seen).toEqual([['ls'], 'b', 'a', 'exec']);
    // Like the gateway and the apiserver, it requests only declared reviews.
    const { allowed, error } = await runReview(pods, 'exec', write);
    expect(allowed).toBeUndefined();
    expect(error).toMatchObject({ message: expect.stringMatching(/does not answer a review of the subresource/) });
    await expect(runReview(pods, 'other', write)).rejects.toThrow('the controller pods has no webhook other');
  });
});

describe('runConversion and roundTrip', () => {
  const given = { ...widget('one'), spec: { title: 'one', size: 3 } };

  it('convert, and tell what the client would be told', async () => {
    const { objects } = await runConversion(widgets, 'versions', [given, widget('two')], 'example.com/v1');
    expect(objects).toEqual([
      {
        ...given,
        apiVersion: 'example.com/v1',
        metadata: { ...given.metadata, annotations: { [SIZE]: '3' } },
        spec: { title: 'one' },
      },
      { ...widget('two'), apiVersion: 'example.com/v1' },
    ]);
    const wrong = { ...widget('one'), apiVersion: 'example.com/v1', metadata: { annotations: { [SIZE]: 'big' } } };
    expect(await runConversion(widgets, 'versions', [wrong], 'example.com/v2')).toMatchObject({
      objects: undefined,
      failure: expect.stringMatching(/cannot be converted to "example.com\/v2": no number$/),
    });
    expect(await roundTrip(widgets, 'versions', given, 'example.com/v1')).toEqual(given);
    // As JSON is parsed here: an integer that JavaScript would round.
    const one = widget('large');
    const large = { ...one, metadata: { ...one.metadata, generation: 9223372036854775807n } } as never;
    expect(await roundTrip(widgets, 'versions', large, 'example.com/v1')).toEqual(large);
    await expect(roundTrip(widgets, 'versions', wrong, 'example.com/v2')).rejects.toThrow('no number');
  });
});

describe('the patch of a mutating webhook, applied by another implementation', () => {
  /** The object that a webhook makes of another, and the operations of its patch. */
  async function patched(from: unknown, to: unknown) {
    const object = (data: unknown) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data });
    const maps = controller({
      name: 'maps',
      for: ConfigMap,
      webhooks: [mutatingWebhook({ name: 'to', for: ConfigMap }).mutate(() => object(to) as never)],
    }).reconcile(async () => {});
    const run = await runReview(maps, 'to', { create: object(from) });
    expect(run.error).toBeUndefined();
    return { patch: run.patch ?? [], data: (run.object as { data?: unknown }).data };
  }

  const names = fc.oneof(
    fc.constantFrom('a', '~', '/', '~1', '~0/', '', '__proto__', 'constructor', '0', '-'),
    fc.string(),
  );
  const { json } = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(null, true, 0, 1, 'a', 'ä😀', 2n ** 53n, 2n ** 53n + 1n, -(2n ** 63n)),
      fc.array(tie('json'), { maxLength: 6 }),
      fc
        .array(fc.tuple(names, tie('json')), { maxLength: 5 })
        // As `JSON.parse` makes them: `__proto__` is a name like any other.
        .map((fields) =>
          parseJson(`{${fields.map(([name, value]) => `${JSON.stringify(name)}:${formatJson(value)}`).join()}}`),
        ),
    ),
  }));

  it('yields the object that the webhook returned, and there is none if nothing changed', async () => {
    let changed = 0;
    await fc.assert(
      fc.asyncProperty(json, json, async (from, to) => {
        const { patch, data } = await patched(from, to);
        expect(formatJson(sorted(data))).toBe(formatJson(sorted(to)));
        if (formatJson(sorted(from)) === formatJson(sorted(to))) expect(patch).toEqual([]);
        else changed += 1;
        expect((await patched(to, to)).patch).toEqual([]);
      }),
      { numRuns: 300 },
    );
    expect(changed).toBeGreaterThan(100);
  });

  it.each<[string, readonly unknown[], readonly unknown[]]>([
    ['an item between', ['a', 'b', 'c'], ['a', 'x', 'b', 'c']],
    ['an item less', ['a', 'b', 'c'], ['a', 'c']],
    ['a field of an item', [{ a: 1, b: 2 }, { a: 3 }], [{ a: 1, b: 4 }, { a: 3 }]],
    ['an item at the end', ['a'], ['a', 'b']],
  ])('is one operation for %s', async (_what, from, to) => {
    const { patch, data } = await patched(from, to);
    expect(data).toEqual(to);
    expect(patch).toHaveLength(1);
  });

  it('replaces an array of thousands in which much has changed, and only then', async () => {
    const items = (size: number, name: (at: number) => string) =>
      Array.from({ length: size }, (_, at) => ({ name: name(at) }));
    const old = items(5000, String);
    const { patch, data } = await patched(
      old,
      items(4000, (at) => `new ${at}`),
    );
    expect(data).toHaveLength(4000);
    expect(patch).toMatchObject([{ op: 'replace', path: '/data' }]);
    const one = await patched(old, old.with(2500, { name: 'x' }));
    expect(one.patch).toEqual([{ op: 'replace', path: '/data/2500/name', value: 'x' }]);
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { fields: fields.map(([name, each]) => [name, sorted(each)]) };
}
