import * as fc from 'fast-check';
import { type Action, GRANTED_GROUP, PLACES, type Written, WRITTEN } from '../actions.ts';
import { type Bulk, type BulkObject, fields } from '../bulk.ts';
import { many, objectOf } from './combinators.ts';
import {
  FUNCTION_NAMES,
  INHERITED,
  LONG,
  nastyKind,
  nastyName,
  OBJECT_NAMES,
  objectName,
  otherKind,
  ownKind,
  ROLE_NAMES,
} from './names.ts';

export function labels(): fc.Arbitrary<BulkObject> {
  const key = fc.constantFrom(
    'app',
    'owner',
    'constructor',
    'toString',
    'valueOf',
    'hasOwnProperty',
    'length',
    'levelhook.dev/paused',
  );
  const value = fc.oneof(
    {
      weight: 20,
      arbitrary: fc.constantFrom('a', 'one', 'two', 'constructor', 'NaN', '1e999', '', 'a..b'),
    },
    { weight: 1, arbitrary: nastyName() },
  );
  return objectOf(key, value);
}

export function annotations(): fc.Arbitrary<BulkObject> {
  const key = fc.constantFrom(
    'wake',
    'constructor',
    'toString',
    'length',
    'levelhook.dev/paused',
    'kubectl.kubernetes.io/last-applied-configuration',
  );
  const value: fc.Arbitrary<Bulk> = fc.oneof(
    { weight: 8, arbitrary: objectName() },
    { weight: 1, arbitrary: fc.constant<Bulk>({ text: 'x', times: 200_000 }) },
  );
  return objectOf(key, value);
}

export function ownerReference(): fc.Arbitrary<BulkObject> {
  const owner = fc.oneof(
    { weight: 4, arbitrary: ownKind() },
    { weight: 1, arbitrary: otherKind() },
    { weight: 1, arbitrary: nastyKind() },
  );
  return fc
    .record({
      owner,
      name: objectName(),
      uid: fc.oneof(
        fc.constantFrom('x', 'y', PLACES.victimUid, PLACES.victimUid, `u\nnamespace:${PLACES.victimNamespace}`, LONG),
        nastyName(),
      ),
      controller: fc.constantFrom<Bulk>(true, true, true, false, null),
    })
    .map(({ owner: [apiVersion, kind], ...rest }) => fields({ apiVersion, kind, ...rest }));
}

export function objectMeta(): fc.Arbitrary<BulkObject> {
  return fc
    .record({
      labels: fc.option(labels(), { nil: undefined }),
      annotations: fc.option(annotations(), { nil: undefined }),
      // One manager alone is accepted: most have a single owner.
      ownerReferences: fc.option(
        fc.oneof(
          {
            weight: 6,
            arbitrary: fc.array(ownerReference(), {
              minLength: 1,
              maxLength: 1,
            }),
          },
          {
            weight: 1,
            arbitrary: fc.array(ownerReference(), { maxLength: 4 }),
          },
        ),
        { nil: undefined },
      ),
    })
    .map(fields);
}

/** What a field that should hold a label selector may hold. */
export function selector(): fc.Arbitrary<Bulk> {
  const expression = fc
    .record({
      key: fc.oneof(fc.constantFrom<Bulk>('app', 5, null), nastyName()),
      operator: fc.constantFrom<Bulk>('In', 'NotIn', 'Exists', 'constructor', 7),
      values: fc.constantFrom<Bulk>(['a'], 5, 'a', null, [[]], {
        items: 'a',
        times: 1000,
      }),
    })
    .map(fields);
  return fc.oneof(
    fc.constantFrom<Bulk>(
      fields({ app: 'a' }),
      fields({ matchLabels: fields({ app: 'a' }) }),
      fields({ matchExpressions: 5, other: fields({}) }),
      fields({ matchLabels: 5, other: fields({}) }),
      fields({ matchExpressions: null, matchLabels: null }),
      fields({ matchExpressions: [null, 5, 'a'] }),
      {
        fields: [
          ['__proto__', fields({ matchExpressions: 5 })],
          ['constructor', 'a'],
        ],
      },
      5,
      'a',
      null,
      [],
    ),
    fc.array(expression, { maxLength: 3 }).map((matchExpressions) => fields({ matchExpressions })),
    expression.map((each): Bulk => fields({ matchExpressions: many(each, 2000) })),
  );
}

/** Values that are deep, large or odd. */
export function anyValue(): fc.Arbitrary<Bulk> {
  const nested = fc.record({
    nested: fc.constantFrom('list' as const, 'object' as const),
    levels: fc.constantFrom(10, 500, 3000, 5000, 9000, 10_000),
    value: objectName(),
  });
  return fc.oneof(
    { weight: 5, arbitrary: objectName() },
    { weight: 3, arbitrary: nested },
    { weight: 2, arbitrary: selector() },
    {
      weight: 2,
      arbitrary: fc.constantFrom<Bulk>(
        5,
        -0,
        true,
        null,
        [],
        [null],
        fields({}),
        { raw: '1e400' },
        { raw: '-0.0' },
        { raw: '9'.repeat(30) },
        { raw: '1E-999' },
      ),
    },
    {
      weight: 2,
      arbitrary: objectName().map((each): Bulk => many(each, 3000)),
    },
    {
      weight: 1,
      arbitrary: objectName().map((value): Bulk => ({ keys: 3000, value })),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Bulk>(
        { text: 'x', times: 1_400_000 },
        { text: 'a\n', times: 300_000 },
        { text: '\u0000', times: 10_000 },
      ),
    },
    {
      weight: 1,
      arbitrary: objectOf(fc.constantFrom(...INHERITED), objectName()),
    },
  );
}

/** Small in text, and 20 times as large in memory: as many as fit into an object. */
function heavy(): fc.Arbitrary<Bulk> {
  const values = fc.constantFrom<Bulk>([], 0, fields({}));
  return values.map((items) => fields({ x: { items, times: 450_000 } }));
}

/** Two texts of which a simple search for one in the other looks at each pair of characters, and many words. */
const REPETITIVE = fields({
  a: { text: 'a', times: 500_000 },
  b: { text: `b${'a'.repeat(1000)}`, times: 250 },
  secrets: { text: `whsec_${'A'.repeat(32)} `, times: 5000 },
});

/** As many values of an index as an object may hold: others for each object and each change of it. */
function indexValues(): fc.Arbitrary<Bulk> {
  return fc
    .record({ numbered: fc.constantFrom('', 'a', 'b', 'c'), times: fc.constantFrom(1000, 10_000, 120_000) })
    .map((each): Bulk => each);
}

/** The fields by which maps and indexes find other objects. */
export function objectBody(): fc.Arbitrary<BulkObject> {
  return fc
    .record({
      ref: fc.option(anyValue(), { nil: undefined }),
      refs: fc.option(
        fc.oneof(
          { weight: 3, arbitrary: fc.array(anyValue(), { maxLength: 3 }) },
          { weight: 1, arbitrary: indexValues() },
        ),
        { nil: undefined },
      ),
      selector: fc.option(selector(), { nil: undefined }),
      constructor: fc.option(objectName(), { nil: undefined, freq: 2 }),
    })
    .map(fields);
}

/** The rules of a role: of one with a long name, each name in them is an index entry with that name. */
function grants(): fc.Arbitrary<Bulk> {
  const names = fc.oneof(fc.array(objectName(), { maxLength: 3 }), indexValues());
  return names.map((resourceNames): Bulk => [
    fields({ apiGroups: [GRANTED_GROUP], resources: ['things'], verbs: ['get'], resourceNames }),
  ]);
}

/** Creates or changes an object of a kind that is none of ours. */
export function putting(): fc.Arbitrary<Action> {
  const { namespace } = PLACES;
  const put = (what: Written, object: fc.Arbitrary<BulkObject>, names = OBJECT_NAMES): fc.Arbitrary<Action> =>
    fc.record({
      do: fc.constant('put' as const),
      what: fc.constant(what),
      name: fc.constantFrom(...names),
      object,
    });
  const metadata = objectMeta();
  const text = fc.oneof(
    { weight: 6, arbitrary: objectName() },
    { weight: 1, arbitrary: fc.constant<Bulk>({ text: 'x', times: 900_000 }) },
  );
  const names = ['ref', 'constructor', '__proto__', 'secrets', 'password', 'toString'];
  const data = fc.oneof(
    { weight: 12, arbitrary: objectOf(fc.constantFrom(...names), text) },
    { weight: 1, arbitrary: fc.constant(REPETITIVE) },
  );
  return fc.oneof(
    {
      weight: 5,
      arbitrary: put('configmaps', fc.record({ metadata, data }).map(fields)),
    },
    {
      weight: 3,
      arbitrary: put(
        'pods',
        metadata.map((each) =>
          fields({
            metadata: each,
            spec: fields({
              containers: [fields({ name: 'main', image: 'pause' })],
            }),
          }),
        ),
      ),
    },
    {
      weight: 6,
      arbitrary: put(
        'things',
        fc
          .record({
            metadata,
            spec: fc.oneof(
              { weight: 16, arbitrary: objectBody() },
              { weight: 2, arbitrary: anyValue() },
              { weight: 1, arbitrary: heavy() },
            ),
          })
          .map(fields),
      ),
    },
    {
      weight: 2,
      arbitrary: put('secrets', fc.record({ metadata, stringData: data }).map(fields)),
    },
    {
      weight: 2,
      arbitrary: put('roles', fc.record({ metadata, rules: grants() }).map(fields), ROLE_NAMES),
    },
    {
      weight: 1,
      arbitrary: put(
        'serviceaccounts',
        metadata.map((each) => fields({ metadata: each })),
      ),
    },
    {
      weight: 1,
      arbitrary: put(
        'services',
        fc
          .record({
            metadata,
            spec: fc.constantFrom<Bulk>(
              fields({ type: 'ExternalName', externalName: 'kubernetes.default.svc' }),
              fields({ clusterIP: 'None', ports: [fields({ port: 80 })] }),
              fields({ clusterIP: 'None', ports: [fields({ port: 80 })], selector: fields({ app: 'a' }) }),
            ),
          })
          .map(fields),
      ),
    },
    {
      weight: 1,
      arbitrary: endpointSlice(metadata).chain((object) => put('endpointslices', fc.constant(object))),
    },
    {
      weight: 1,
      arbitrary: put(
        'events',
        fc.record({ metadata, name: objectName() }).map(({ metadata: each, name }) =>
          fields({
            metadata: each,
            reason: 'Hostile',
            message: name,
            involvedObject: fields({
              apiVersion: 'v1',
              kind: 'ConfigMap',
              namespace,
              name,
            }),
          }),
        ),
      ),
    },
  );
}

/** Of a Service of its own, by which that leads to the gateway's machine, to others, or to many addresses. */
function endpointSlice(metadata: fc.Arbitrary<BulkObject>): fc.Arbitrary<BulkObject> {
  const endpoints = fc.constantFrom<Bulk>(
    [fields({ addresses: ['10.0.0.1'] })],
    [fields({ addresses: ['100.100.100.200'] })],
    { items: fields({ addresses: ['10.0.0.1'] }), times: 1000 },
  );
  return fc.record({ metadata, service: fc.constantFrom(...OBJECT_NAMES), endpoints }).map((each) => {
    const { fields: own } = each.metadata;
    return fields({
      metadata: {
        fields: [
          ...own.filter(([name]) => name !== 'labels'),
          ['labels', fields({ 'kubernetes.io/service-name': each.service })],
        ],
      },
      addressType: 'IPv4',
      ports: [fields({ port: 80 })],
      endpoints: each.endpoints,
    });
  });
}

export function removing(): fc.Arbitrary<Action> {
  return fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('remove' as const),
        what: fc.constantFrom(...WRITTEN),
        name: fc.constantFrom(...OBJECT_NAMES),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('remove' as const),
        what: fc.constant('reconcilefunctions' as const),
        name: fc.constantFrom(...FUNCTION_NAMES),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('remove all' as const),
        what: fc.constantFrom('reconcilefunctions' as const, 'things' as const),
      }),
    },
  );
}
