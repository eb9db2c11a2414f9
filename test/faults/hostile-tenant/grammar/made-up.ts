import * as fc from 'fast-check';
import { type Action, PLACES, VICTIM_FUNCTION, WEBHOOK } from '../actions.ts';
import { type Bulk, type BulkObject, fields } from '../bulk.ts';
import { FUNCTION_NAMES, nastyName, objectName } from './names.ts';
import { anyValue } from './objects.ts';

/** A controller of its own, or one of another tenant, whose name it can guess. */
function controller(): fc.Arbitrary<string> {
  const { namespace, victimNamespace } = PLACES;
  return fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...FUNCTION_NAMES).map((name) => `${namespace}.${name}`) },
    { weight: 4, arbitrary: fc.constant(`${victimNamespace}.${VICTIM_FUNCTION}`) },
    { weight: 1, arbitrary: nastyName().map(encodeURIComponent) },
  );
}

/** An outcome with as much in it as a callback may have. */
function lateOutcome(): fc.Arbitrary<Bulk> {
  const write = fields({ apiVersion: 'v1', kind: 'ConfigMap', namespace: PLACES.namespace, name: 'a', uid: 'b' });
  const rule = fields({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    labelSelector: fields({
      matchExpressions: { items: fields({ key: 'a', operator: 'In', values: ['b'] }), times: 16 },
    }),
  });
  return fc.oneof(
    fc.constantFrom<Bulk>(
      fields({ status: 'done', writes: { items: write, times: 11_000 } }),
      fields({ status: 'done', related: { items: rule, times: 64 } }),
      fields({ status: 'accepted', withinSeconds: 1e9 }),
      fields({ status: 'error', message: { text: 'm', times: 900_000 } }),
      fields({ status: 'constructor' }),
    ),
    anyValue(),
  );
}

/** Makes up a callback, signed with the tenant's own secret or with none. */
export function callingBack(): fc.Arbitrary<Action> {
  const body: fc.Arbitrary<Bulk> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc
        .record({
          version: fc.constant('v1'),
          controller: fc.constantFrom(...FUNCTION_NAMES),
          token: nastyName(),
          namespace: fc.constantFrom(PLACES.namespace, PLACES.victimNamespace),
          name: objectName(),
          run: fc.constantFrom<Bulk>(1, 2, 9_007_199_254_740_991, -1, { raw: '1e400' }),
          result: lateOutcome(),
        })
        .map(fields),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Bulk>(
        { nested: 'list', levels: 400_000, value: 1 },
        { keys: 60_000, value: 1 },
        { items: fields({}), times: 300_000 },
      ),
    },
  );
  return fc.record({
    do: fc.constant('call back' as const),
    controller: controller(),
    body,
    isSigned: fc.boolean(),
  });
}

/** Makes up a review: of the webhook's kind, and with as much in it as an object may have and more. */
export function reviewing(): fc.Arbitrary<Action> {
  const large = fc.constantFrom<Bulk>(
    fields({ a: { items: fields({ a: 0 }), times: 900_000 } }),
    fields({ a: { keys: 400_000, value: 1 } }),
    fields({ a: { text: 'x', times: 7_000_000 } }),
    fields({ a: { nested: 'object', levels: 500_000, value: 1 } }),
  );
  const request = fc
    .record({
      uid: fc.oneof(fc.constant('made-up'), nastyName()),
      kind: fc.constant(fields({ group: '', version: 'v1', kind: 'ConfigMap' })),
      resource: fc.constant(fields({ group: '', version: 'v1', resource: 'configmaps' })),
      name: objectName(),
      namespace: fc.constantFrom(PLACES.namespace, PLACES.victimNamespace),
      operation: fc.constantFrom('CREATE', 'CREATE', 'UPDATE', 'constructor'),
      userInfo: fc.constant(fields({ username: 'admin', groups: ['system:masters'] })),
      object: fc.oneof({ weight: 2, arbitrary: anyValue() }, { weight: 1, arbitrary: large }),
    })
    .map(fields);
  const body = (of: Bulk): BulkObject =>
    fields({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: of });
  return fc.record({
    do: fc.constant('review' as const),
    controller: controller(),
    webhook: fc.constant(WEBHOOK),
    body: fc.oneof({ weight: 6, arbitrary: request.map(body) }, { weight: 1, arbitrary: anyValue().map(body) }),
  });
}
