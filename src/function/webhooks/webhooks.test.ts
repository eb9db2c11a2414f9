import { beforeEach, describe, expect, it } from 'vitest';
import {
  type KubernetesObject,
  type LogFields,
  type Logger,
  resource,
  silentLogger,
  UserError,
} from '../../core/index.ts';
import { generateSecret, importSecret, LEVELHOOK_HEADER, type ReviewRequest, sign } from '../../contract/index.ts';
import { descriptionSchema } from '../../contract/description-schema.ts';
import type { CacheReader } from '../cache-reader.ts';
import { controller } from '../controller.ts';
import { createFunctionApp, type FunctionAppOptions } from '../function-app.ts';
import { parseGoDuration } from './go-duration.ts';
import type { Webhook } from '../webhook.ts';
import { conversionWebhook, deny, mutatingWebhook, validatingWebhook } from './index.ts';

interface Widget extends KubernetesObject {
  spec: { size: number };
}
interface OldWidget extends KubernetesObject {
  spec: { size: string };
}
const Widget = resource<Widget>('example.com/v2', 'Widget');
const OldWidget = resource<OldWidget>('example.com/v1', 'Widget');
const secret = generateSecret();
const object = {
  apiVersion: 'example.com/v2',
  kind: 'Widget',
  metadata: { namespace: 'a', name: 'b' },
  spec: { size: 1 },
};

let lines: LogFields[];
beforeEach(() => void (lines = []));

function logging(bound: LogFields = {}): Logger {
  const note = (fields: LogFields, msg: string): unknown => lines.push({ ...bound, ...fields, msg });
  return { ...silentLogger, info: note, warn: note, error: note, child: (fields) => logging({ ...bound, ...fields }) };
}

const cache: CacheReader = {
  get: async () => ({ ...object, spec: { size: 7 } }) as never,
  list: async () => ({ items: [], version: '1' }),
  secondsUnchanged: async () => undefined,
};

function appOf(webhooks: readonly Webhook[], options: Partial<FunctionAppOptions> = {}) {
  const widgets = controller({ name: 'widgets', for: Widget, webhooks }).reconcile(async () => {});
  return createFunctionApp(widgets, { secrets: [secret], cache: () => cache, logger: logging(), ...options });
}

const request = {
  uid: 'u-1',
  kind: { group: 'example.com', version: 'v2', kind: 'Widget' },
  resource: { group: 'example.com', version: 'v2', resource: 'widgets' },
  requestKind: { group: 'example.com', version: 'v1', kind: 'Widget' },
  name: 'b',
  namespace: 'a',
  operation: 'CREATE',
  userInfo: { username: 'alice', groups: ['g'] },
  object: object as object | null,
  oldObject: null as object | null,
  dryRun: false,
  options: { kind: 'CreateOptions' },
};

const admission = (rest: object = {}) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { ...request, ...rest },
});
const conversion = (desiredAPIVersion: unknown, objects: unknown) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'ConversionReview',
  request: { uid: 'u-2', desiredAPIVersion, objects },
});

function reviewOf(review: object, rest: Partial<ReviewRequest> = {}): object {
  return {
    version: 'v1',
    controller: 'widgets',
    webhook: 'hook',
    deadline: new Date(Date.now() + 10_000).toISOString(),
    remainingSeconds: 10,
    cache: { views: {} },
    cacheAgeSeconds: { 'example.com/v2/Widget': 1.5 },
    review,
    ...rest,
  };
}

type App = ReturnType<typeof appOf>;
async function send(app: App, body: object | string, secrets = [secret], id: string = crypto.randomUUID()) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const keys = await Promise.all(secrets.map(importSecret));
  const headers = { ...(await sign(keys, { id, nowMs: Date.now(), body: text })) };
  return app.request('/', { method: 'POST', headers, body: text });
}
const ask = async (webhook: Webhook, review: object) => {
  const answer = await send(appOf([webhook]), reviewOf(review));
  return {
    status: answer.status,
    body: (await answer.json()) as { response: Record<string, unknown>; error?: string },
  };
};

const validating = validatingWebhook({ name: 'hook', for: Widget });
const allowing = validating.validate(() => {});

describe('a function app with webhooks', () => {
  it('describes them, as the gateway takes them', async () => {
    const names = validatingWebhook({
      name: 'names',
      for: Widget,
      operations: ['DELETE'],
      subresources: ['status'],
      namespaces: ['a'],
      objectSelector: { matchLabels: { a: 'b' } },
      matchConditions: [{ name: 'c', expression: 'true' }],
      failurePolicy: 'Ignore',
      sideEffects: 'NoneOnDryRun',
      timeoutSeconds: 3,
      cache: { maxAgeSeconds: 10, otherwise: 'fail' },
    }).validate(() => {});
    const defaults = mutatingWebhook({ name: 'defaults', for: Widget, reinvocationPolicy: 'IfNeeded' }).mutate(
      () => {},
    );
    const versions = conversionWebhook({ name: 'versions', hub: Widget }).spoke(OldWidget, conversions);
    const keys = [await importSecret(secret)];
    const headers = { ...(await sign(keys, { id: 'x', nowMs: Date.now(), body: '' })) };
    const description = (await (await appOf([names, defaults, versions]).request('/', { headers })).json()) as {
      webhooks: object[];
    };
    const kind = { apiVersion: 'example.com/v2', kind: 'Widget' };
    expect(description.webhooks).toEqual([
      {
        type: 'validating',
        name: 'names',
        ...kind,
        operations: ['DELETE'],
        subresources: ['status'],
        namespaces: ['a'],
        objectSelector: { matchLabels: { a: 'b' } },
        matchConditions: [{ name: 'c', expression: 'true' }],
        failurePolicy: 'Ignore',
        sideEffects: 'NoneOnDryRun',
        timeoutSeconds: 3,
        cache: { maxAgeSeconds: 10, otherwise: 'fail' },
      },
      { type: 'mutating', name: 'defaults', ...kind, operations: ['CREATE', 'UPDATE'], reinvocationPolicy: 'IfNeeded' },
      { type: 'conversion', name: 'versions', ...kind, versions: ['v2', 'v1'] },
    ]);
    expect(descriptionSchema.parse(description)).toEqual(description);
  });

  it.each<[string, object, boolean]>([
    ['that the apiserver has sent', { authenticated: true }, true],
    // An older gateway does not send the field.
    ['whose gateway does not say who has sent it', {}, false],
  ])('reads the cache in a review %s', async (_name, said, authenticated) => {
    let given: unknown;
    const webhook = validating.validate(async (_, context) => {
      const cached = await context.cache.get(Widget, { namespace: 'a', name: 'x' });
      given = [context.authenticated, cached?.spec.size];
    });
    expect((await send(appOf([webhook]), reviewOf(admission(), said))).status).toBe(200);
    expect(given).toEqual([authenticated, 7]);
  });

  it('has no cache in a review that anyone may have made up, and can see it', async () => {
    let given: unknown;
    const webhook = validating.validate(async (_, { authenticated, cache }) => {
      given = authenticated;
      await cache.get(Widget, { namespace: 'a', name: 'x' });
    });
    const answer = await send(appOf([webhook]), reviewOf(admission(), { authenticated: false }));
    expect(answer.status).toBe(500);
    expect(given).toBe(false);
    expect(lines).toMatchObject([{ error: expect.stringMatching(/does not know that an apiserver has sent this/) }]);
  });

  it('cannot be made with two of one name', () => {
    expect(() => appOf([allowing, allowing])).toThrow(UserError);
    expect(() => appOf([allowing, allowing])).toThrow('two webhooks of the controller widgets have the name hook');
  });

  it('answers a signed review with its response, and gives the webhook all that came with it', async () => {
    let given: unknown;
    const webhook = validating.validate(async (request, { cache, cacheAgeSeconds, log, signal }) => {
      log.info({}, 'seen');
      const cached = await cache.get(Widget, { namespace: 'a', name: 'x' });
      given = [request, cached?.spec.size, cacheAgeSeconds(Widget), cacheAgeSeconds(OldWidget), signal.aborted];
    });
    const answer = await send(appOf([webhook]), reviewOf(admission()));
    expect(answer.status).toBe(200);
    expect(answer.headers.get(LEVELHOOK_HEADER)).toBe('v1');
    expect(await answer.json()).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u-1', allowed: true },
    });
    expect(given).toEqual([{ ...request, oldObject: undefined }, 7, 1.5, undefined, false]);
    expect(lines).toEqual([{ controller: 'widgets', webhook: 'hook', uid: 'u-1', msg: 'seen' }]);
  });

  it('answers a copy of a review again, and runs no trigger that has the shape of none', async () => {
    const app = appOf([allowing]);
    const body = reviewOf(admission());
    expect((await send(app, body, [secret], 'once')).status).toBe(200);
    expect((await send(app, body, [secret], 'once')).status).toBe(200);
    expect((await send(app, { version: 'v1', controller: 'widgets' })).status).toBe(400);
    expect((await send(app, 'garbage')).status).toBe(400);
  });

  it.each<[string, object, number, RegExp]>([
    ['another controller', { controller: 'other' }, 400, /the review is for other, and this is widgets/],
    ['another webhook', { webhook: 'other' }, 400, /there is no webhook "other"/],
    ['another version', { version: 'v2' }, 400, /contract v1/],
    ['a deadline that has passed', { deadline: new Date(0).toISOString() }, 409, /deadline/],
    ['a deadline that is none', { deadline: 'soon' }, 409, /deadline/],
    ['no request', { review: { apiVersion: 'a', kind: 'b' } }, 400, /lacks a field/],
    ['no uid', { review: { apiVersion: 'a', kind: 'b', request: {} } }, 400, /lacks a field/],
  ])('refuses a review for %s', async (_what, rest, status, error) => {
    const answer = await send(appOf([allowing]), reviewOf(admission(), rest));
    expect(answer.status).toBe(status);
    expect(((await answer.json()) as { error: string }).error).toMatch(error);
  });

  it('refuses a review without a valid signature, and one of more than 9 MiB', async () => {
    const app = appOf([allowing]);
    expect((await send(app, reviewOf(admission()), [generateSecret()])).status).toBe(401);
    const filled = (size: number) => reviewOf(admission({ object: { ...object, data: 'x'.repeat(size) } }));
    expect((await send(app, filled(6 * 2 ** 20))).status).toBe(200);
    const tooLarge = await send(app, filled(9 * 2 ** 20));
    expect(tooLarge.status).toBe(413);
    expect(await tooLarge.json()).toEqual({ error: 'the body is larger than 9 MiB' });
  });

  it('refuses a review when it has no webhooks', async () => {
    expect((await send(appOf([]), reviewOf(admission()))).status).toBe(400);
  });

  it('decides nothing when the webhook throws: 500, and only the log says why', async () => {
    const webhook = validating.validate(() => {
      throw new Error('hush');
    });
    const answer = await send(appOf([webhook]), reviewOf(admission()));
    expect(answer.status).toBe(500);
    const text = await answer.text();
    expect(text).toBe('{"error":"the webhook hook failed: the log of its function has the reason"}');
    expect(lines).toMatchObject([{ webhook: 'hook', uid: 'u-1', error: 'hush', msg: 'a webhook failed' }]);
  });

  it('answers 504 shortly before the deadline, and aborts what the webhook does', async () => {
    let aborted: unknown;
    const webhook = validating.validate(async (_, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      aborted = signal.aborted;
      // The answer is on its way by then.
      throw new Error('late');
    });
    const answer = await send(appOf([webhook]), reviewOf(admission(), { remainingSeconds: 2 }));
    expect(answer.status).toBe(504);
    expect(await answer.json()).toEqual({ error: 'the webhook hook did not answer within 1.8 s' });
    expect(aborted).toBe(true);
  });
});

describe('a validating webhook', () => {
  it('refuses with the status that the client sees', async () => {
    const refusing = validating.validate(() => deny('too big'));
    expect((await ask(refusing, admission())).body.response).toEqual({
      uid: 'u-1',
      allowed: false,
      status: { status: 'Failure', message: 'too big', reason: 'Forbidden', code: 403 },
    });
    const causes = [{ field: 'spec.size', message: 'no' }, { field: 'spec.text' }];
    const invalid = validating.validate(() => deny('wrong', { causes }));
    expect((await ask(invalid, admission())).body.response['status']).toEqual({
      status: 'Failure',
      message: 'wrong',
      reason: 'Invalid',
      code: 422,
      details: {
        causes: [
          { reason: 'FieldValueInvalid', field: 'spec.size', message: 'no' },
          { reason: 'FieldValueInvalid', field: 'spec.text', message: 'wrong' },
        ],
      },
    });
    const busy = validating.validate(() => deny('later', { code: 429, reason: 'TooManyRequests' }));
    expect((await ask(busy, admission())).body.response['status']).toMatchObject({ code: 429 });
    expect(() => deny('no', { code: 200 })).toThrow('between 400 and 599');
  });

  it.each([true, false])('warns and audits, allowed: %s', async (allowed) => {
    const webhook = validating.validate((_, { warn, audit }) => {
      warn('one');
      warn('two');
      audit('owner', 'alice');
      return allowed ? undefined : deny('no');
    });
    expect((await ask(webhook, admission())).body.response).toMatchObject({
      allowed,
      warnings: ['one', 'two'],
      auditAnnotations: { owner: 'alice' },
    });
  });

  it('sees on DELETE the object that is deleted, and on UPDATE both', async () => {
    const seen: unknown[] = [];
    const webhook = validatingWebhook({ name: 'hook', for: Widget, operations: ['UPDATE', 'DELETE'] }).validate(
      ({ operation, object, oldObject, dryRun }) => {
        // The types know that an update has an old object.
        if (operation === 'UPDATE') seen.push(oldObject.spec.size);
        seen.push([operation, object.spec.size, oldObject?.spec.size, dryRun]);
      },
    );
    const old = { ...object, spec: { size: 2 } };
    await ask(webhook, admission({ operation: 'UPDATE', oldObject: old, dryRun: true }));
    await ask(webhook, admission({ operation: 'DELETE', object: null, oldObject: old, name: undefined }));
    expect(seen).toEqual([2, ['UPDATE', 1, 2, true], ['DELETE', 2, 2, false]]);
  });

  it('sees the object of a subresource, with its own type', async () => {
    interface Scale extends KubernetesObject {
      spec: { replicas: number };
    }
    const seen: unknown[] = [];
    const webhook = validatingWebhook<Widget, Scale>({ name: 'hook', for: Widget, subresources: ['scale'] }).validate(
      ({ object, subResource }) => void seen.push(object.spec.replicas, subResource),
    );
    const scale = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'b' }, spec: { replicas: 3 } };
    expect((await ask(webhook, admission({ subResource: 'scale', object: scale }))).status).toBe(200);
    expect((await ask(webhook, admission())).status).toBe(400);
    expect(seen).toEqual([3, 'scale']);
  });

  it.each<[string, object, RegExp]>([
    ['of an old version', { ...admission(), apiVersion: 'admission.k8s.io/v1beta1' }, /only the AdmissionReview of/],
    ['of a conversion', conversion('example.com/v1', []), /the "ConversionReview" of/],
    ['of another kind', admission({ resource: { ...request.resource, resource: 'gadgets' } }), /"gadgets", only those/],
    ['of another version', admission({ resource: { ...request.resource, version: 'v1' } }), /widgets of example.com/],
    ['of another operation', admission({ operation: 'DELETE', oldObject: object }), /operation "DELETE"/],
    ['of a subresource', admission({ subResource: 'status' }), /subresource "status"/],
    ['without an object', admission({ object: null }), /without the object/],
    ['without the old object', admission({ operation: 'UPDATE' }), /without the object/],
    ['without a resource', admission({ resource: undefined }), /lacks kind, resource or userInfo/],
    ['without a user', admission({ userInfo: null }), /lacks kind, resource or userInfo/],
  ])('does not answer a review %s: 400', async (_what, review, error) => {
    const { status, body } = await ask(allowing, review);
    expect(status).toBe(400);
    expect(body.error).toMatch(/^the webhook hook does not answer /);
    expect(body.error).toMatch(error);
  });

  it.each<[string, unknown]>([
    ['false', false],
    ['a response', { allowed: false }],
    ['null', null],
  ])('decides nothing when it returns %s: 500', async (_what, returned) => {
    expect(
      (
        await ask(
          validating.validate(() => returned as never),
          admission(),
        )
      ).status,
    ).toBe(500);
  });

  it('decides nothing when it audits under a key that the apiserver would drop', async () => {
    const webhook = validating.validate((_, { audit }) => audit('a/b', 'c'));
    expect((await ask(webhook, admission())).status).toBe(500);
    expect(lines).toMatchObject([{ error: '"a/b" is no key of an audit annotation' }]);
  });
});

describe('a mutating webhook', () => {
  const mutating = mutatingWebhook({ name: 'hook', for: Widget, operations: ['CREATE', 'DELETE'] });
  const patchOf = async (webhook: Webhook, rest: object = {}) => {
    const { status, body } = await ask(webhook, admission(rest));
    const { patch, patchType, ...others } = body.response ?? {};
    return { status, others, patchType, patch: patch && JSON.parse(Buffer.from(patch as string, 'base64').toString()) };
  };

  it('answers with the difference of the object that it has changed or returned', async () => {
    const changed = { status: 200, others: { uid: 'u-1', allowed: true }, patchType: 'JSONPatch' };
    const patch = [{ op: 'replace', path: '/spec/size', value: 5 }];
    expect(await patchOf(mutating.mutate((widget) => void (widget.spec.size = 5)))).toEqual({ ...changed, patch });
    expect(await patchOf(mutating.mutate((widget) => ({ ...widget, spec: { size: 5 } })))).toEqual({
      ...changed,
      patch,
    });
    const labelled = mutating.mutate((widget) => void (widget.metadata.labels = { 'a/b~c': 'ä€😀' }));
    expect((await patchOf(labelled)).patch).toEqual([
      { op: 'add', path: '/metadata/labels', value: { 'a/b~c': 'ä€😀' } },
    ]);
  });

  it('answers without a patch when nothing has changed, warned or not', async () => {
    const webhook = mutating.mutate((widget, _, { warn }) => {
      warn('as it was');
      return { ...widget, status: undefined };
    });
    expect((await ask(webhook, admission())).body.response).toEqual({
      uid: 'u-1',
      allowed: true,
      warnings: ['as it was'],
    });
  });

  it('may deny, sees the object as it was, and decides nothing when it returns no object', async () => {
    const webhook = mutating.mutate((widget, request) => {
      widget.spec.size = 9;
      return deny(`it was ${request.object.spec.size}`);
    });
    expect((await ask(webhook, admission())).body.response).toMatchObject({
      allowed: false,
      status: { message: 'it was 1' },
    });
    for (const returned of ['text', [object], 5]) {
      expect((await patchOf(mutating.mutate(() => returned as never))).status).toBe(500);
    }
  });

  it('cannot change what is deleted', async () => {
    const write = { operation: 'DELETE', object: null, oldObject: object };
    expect(
      (
        await patchOf(
          mutating.mutate(() => {}),
          write,
        )
      ).status,
    ).toBe(200);
    expect(
      (
        await patchOf(
          mutating.mutate((widget) => void (widget.spec.size = 2)),
          write,
        )
      ).status,
    ).toBe(500);
    expect(lines.at(-1)).toMatchObject({ error: 'a mutating webhook cannot change what is deleted' });
  });

  it('sends a patch of megabytes', async () => {
    const text = 'ä'.repeat(2 ** 20);
    const { patch } = await patchOf(mutating.mutate((widget) => ({ ...widget, text })));
    expect(patch[0].value).toBe(text);
  });
});

const conversions = {
  toHub: ({ spec }: OldWidget) => {
    const size = Number(spec.size);
    if (Number.isNaN(size)) throw new Error('the size is no number');
    return { spec: { size } };
  },
  fromHub: ({ spec }: Widget) => ({ spec: { size: String(spec.size) } }),
};

describe('a conversion webhook', () => {
  interface OldestWidget extends KubernetesObject {
    size: string;
  }
  const OldestWidget = resource<OldestWidget>('example.com/v1alpha1', 'Widget');
  const versions = conversionWebhook({ name: 'hook', hub: Widget })
    .spoke(OldWidget, conversions)
    .spoke(OldestWidget, {
      toHub: (widget) => ({ spec: { size: Number(widget.size) } }),
      // Overwrites its argument, and metadata that a conversion must not change.
      fromHub: (widget) => {
        const size = String(widget.spec.size);
        widget.metadata.name = 'other';
        return { size, metadata: { ...widget.metadata, uid: 'other', labels: { a: 'b' } } };
      },
    });
  const conversionsOfOldest = ({ size }: OldestWidget) => ({ spec: { size: Number(size) } });
  const metadata = { name: 'b', namespace: 'a', uid: 'u', resourceVersion: '3', annotations: { c: 'd' } };
  const v1 = { apiVersion: 'example.com/v1', kind: 'Widget', metadata, spec: { size: '1' } };
  const v2 = { ...v1, apiVersion: 'example.com/v2', spec: { size: 1 } };
  const oldest = { apiVersion: 'example.com/v1alpha1', kind: 'Widget', metadata, size: '1' };

  it('converts objects of any version, each through the hub, in their order', async () => {
    const { status, body } = await ask(versions, conversion('example.com/v2', [v1, v2, oldest]));
    expect(status).toBe(200);
    expect(body).toEqual({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'ConversionReview',
      response: { uid: 'u-2', convertedObjects: [v2, v2, v2], result: { status: 'Success' } },
    });
    expect((await ask(versions, conversion('example.com/v1', [oldest, v2]))).body.response['convertedObjects']).toEqual(
      [v1, v1],
    );
  });

  it('keeps labels and annotations that a conversion does not name, from one spoke to another too', async () => {
    const labelled = { ...v1, metadata: { ...metadata, labels: { tier: 'front' } } };
    const kept = conversionWebhook({ name: 'hook', hub: Widget })
      .spoke(OldWidget, {
        // Keeps a value that the hub has no field for.
        toHub: ({ spec, metadata: { annotations } }) => ({
          spec: { size: Number(spec.size) },
          metadata: { annotations: { ...annotations, kept: 'x' } },
        }),
        fromHub: ({ spec }) => ({ spec: { size: String(spec.size) } }),
      })
      .spoke(OldestWidget, { toHub: conversionsOfOldest, fromHub: ({ spec }) => ({ size: String(spec.size) }) });
    const { body } = await ask(kept, conversion('example.com/v1alpha1', [labelled]));
    expect(body.response['convertedObjects']).toEqual([
      { ...oldest, metadata: { ...labelled.metadata, annotations: { c: 'd', kept: 'x' } } },
    ]);
  });

  it('changes of the metadata nothing but labels and annotations', async () => {
    const { body } = await ask(versions, conversion('example.com/v1alpha1', [v1]));
    expect(body.response['convertedObjects']).toEqual([{ ...oldest, metadata: { ...metadata, labels: { a: 'b' } } }]);
  });

  it('fails as a whole, and says which object and why', async () => {
    const wrong = { ...v1, spec: { size: 'big' } };
    expect((await ask(versions, conversion('example.com/v2', [v1, wrong]))).body.response).toEqual({
      uid: 'u-2',
      result: {
        status: 'Failure',
        message: 'example.com/v1/Widget a/b cannot be converted to "example.com/v2": the size is no number',
      },
    });
  });

  it.each<[string, object[], string, RegExp]>([
    ['to a version that it does not know', [v1], 'example.com/v9', /does not know that version/],
    [
      'from a version that it does not know',
      [{ ...v1, apiVersion: 'example.com/v9' }],
      'example.com/v2',
      /its version/,
    ],
    ['of another kind', [{ ...v1, kind: 'WidgetList' }], 'example.com/v2', /WidgetList a\/b .* its version/],
    ['of another kind that is in that version', [{ ...v2, kind: 'Gadget' }], 'example.com/v2', /Gadget/],
  ])('fails %s', async (_what, objects, apiVersion, message) => {
    const { body } = await ask(versions, conversion(apiVersion, objects));
    expect(body.response['result']).toEqual({ status: 'Failure', message: expect.stringMatching(message) });
  });

  it.each<[string, object]>([
    ['of an old version', { ...conversion('example.com/v2', []), apiVersion: 'apiextensions.k8s.io/v1beta1' }],
    ['of an admission', admission()],
    ['without a version', conversion(undefined, [v1])],
    ['without objects', conversion('example.com/v2', undefined)],
    ['of what is no object', conversion('example.com/v2', [null])],
    ['of an object without metadata', conversion('example.com/v2', [{ apiVersion: 'a', kind: 'b' }])],
  ])('does not answer a review %s: 400', async (_what, review) => {
    const { status, body } = await ask(versions, review);
    expect(status).toBe(400);
    expect(body.error).toMatch(/^the webhook hook does not answer /);
  });

  it('is of different versions of one kind', () => {
    const of = (other: typeof OldWidget) =>
      conversionWebhook({ name: 'x', hub: Widget })
        .spoke(OldestWidget, {} as never)
        .spoke(other, conversions);
    expect(of(OldWidget).description).toMatchObject({ versions: ['v2', 'v1alpha1', 'v1'] });
    expect(() => of(resource('example.com/v1alpha1', 'Widget'))).toThrow(
      'is no other version of example.com/v2/Widget',
    );
    expect(() => of(resource('example.com/v2', 'Widget'))).toThrow(TypeError);
    expect(() => of(resource('example.com/v1', 'Gadget'))).toThrow(TypeError);
    expect(() => of(resource('other.com/v1', 'Widget'))).toThrow(TypeError);
  });
});

describe('a review that is not signed', () => {
  const app = (webhook: Webhook = allowing) => appOf([webhook], { unsignedReviews: true });
  const post = async (to: App, path: string, body: object | string = admission()) => {
    const answer = await to.request(path, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };

  it('is answered only by an app that is told to', async () => {
    expect(await post(app(), '/webhooks/hook?timeout=5s')).toEqual({
      status: 200,
      text: JSON.stringify({ ...admission(), request: undefined, response: { uid: 'u-1', allowed: true } }),
    });
    expect((await post(appOf([allowing]), '/webhooks/hook?timeout=5s')).status).toBe(404);
    expect((await post(app(), '/')).status).toBe(401);
  });

  it('has no cache, and no age of it', async () => {
    let age: unknown = 'not asked';
    const webhook = validating.validate(async (_, { cache, cacheAgeSeconds }) => {
      age = cacheAgeSeconds(Widget);
      await cache.list(Widget);
    });
    expect((await post(app(webhook), '/webhooks/hook')).status).toBe(500);
    expect(age).toBeUndefined();
    expect(lines).toMatchObject([{ error: expect.stringMatching(/without the gateway has no cache/) }]);
  });

  it('has the time that the apiserver gives', async () => {
    const webhook = validating.validate(() => new Promise(() => {}));
    expect(await post(app(webhook), '/webhooks/hook?timeout=150ms')).toEqual({
      status: 504,
      text: 'the webhook hook did not answer within 0.1 s',
    });
  });

  it.each<[string, string, object | string, number, RegExp]>([
    ['another webhook', '/webhooks/other', admission(), 404, /^there is no webhook "other"$/],
    ['a timeout that is none', '/webhooks/hook?timeout=ten', admission(), 400, /^the timeout "ten" is no time/],
    ['no time', '/webhooks/hook?timeout=0s', admission(), 400, /the timeout/],
    ['what is no JSON', '/webhooks/hook', 'garbage', 400, /the body is no review/],
    ['what is no review', '/webhooks/hook', '[]', 400, /the body is no review/],
    ['an old version', '/webhooks/hook', { ...admission(), apiVersion: 'admission.k8s.io/v1beta1' }, 400, /only the/],
    ['a large body', '/webhooks/hook', 'x'.repeat(9 * 2 ** 20 + 1), 413, /larger than 9 MiB/],
  ])('is refused for %s', async (_what, path, body, status, text) => {
    const answer = await post(app(), path, body);
    expect(answer).toEqual({ status, text: expect.stringMatching(text) });
  });
});

it.each<[string, number | undefined]>([
  ['10s', 10_000],
  ['1m0s', 60_000],
  ['1.5s', 1500],
  ['250ms', 250],
  ['1h2m3.5s', 3_723_500],
  ['500µs', 0.5],
  ['0s', 0],
  ['10', undefined],
  ['-1s', undefined],
  ['', undefined],
  ['1e9s', undefined],
  ['1s '.repeat(9), undefined],
])('the Go duration %j', (text, ms) => {
  expect(parseGoDuration(text)).toBe(ms);
});
