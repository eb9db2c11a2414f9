import * as fc from 'fast-check';
import { type Action, PLACES, WEBHOOK } from '../actions.ts';
import { type Bulk, type BulkObject, fields } from '../bulk.ts';
import { mostly } from './combinators.ts';
import { FUNCTION_NAMES, INHERITED, nastyKind, nastyName, objectName, otherKind, ownKind } from './names.ts';
import { selector } from './objects.ts';

/** Sources that the gateway accepts, so that its maps, predicates and indexes are used; or of all sorts. */
type Sources = typeof SOUND | typeof ANY;
const SOUND = 'sound';
const ANY = 'any';

/** Creates or changes a ReconcileFunction. */
export function declaring(): fc.Arbitrary<Action> {
  return fc.constantFrom(...FUNCTION_NAMES).chain((name) =>
    declaration(name).map((spec): Action => ({
      do: 'put',
      what: 'reconcilefunctions',
      name,
      object: fields({ spec }),
    })),
  );
}

/** Declares as many ReconcileFunctions as a namespace may have, alike. */
export function declaringMany(): fc.Arbitrary<Action> {
  return declarationOf('many', SOUND).map((spec): Action => ({
    do: 'declare many',
    spec: { fields: spec.fields.filter(([name]) => name !== 'endpoint') },
  }));
}

/** Another account, another endpoint or other credentials, while runs of the declaration are under way. */
export function turning(): fc.Arbitrary<Action> {
  return fc.constantFrom(...FUNCTION_NAMES).chain((name) =>
    fc
      .oneof(
        fc
          .constantFrom('reader', 'second', 'second', 'default')
          .map((serviceAccountName) => fields({ serviceAccountName })),
        fc
          .constantFrom(name, 'elsewhere', '')
          // Merged into what is there: the other way of naming an endpoint goes.
          .map((path) => fields({ endpoint: fields({ url: `${PLACES.functionUrl}/${path}`, service: null }) })),
        fc.constantFrom('signing', 'another').map((secret) => fields({ signingSecret: fields({ name: secret }) })),
        fc.constantFrom('own', 'token', 'proxy').map((credentials) => fields({ credentials })),
      )
      .map((spec): Action => ({ do: 'put', what: 'reconcilefunctions', name, object: fields({ spec }) })),
  );
}

/** The spec of a ReconcileFunction of this name. */
export function declaration(name: string): fc.Arbitrary<BulkObject> {
  return fc.oneof(
    { weight: 3, arbitrary: declarationOf(name, SOUND) },
    { weight: 1, arbitrary: declarationOf(name, ANY) },
  );
}

export function declarationOf(name: string, sources: Sources): fc.Arbitrary<BulkObject> {
  const some = (each: fc.Arbitrary<BulkObject>, most: number): fc.Arbitrary<Bulk> =>
    fc.oneof(
      { weight: 10, arbitrary: fc.array(each, { maxLength: 2 }) },
      {
        weight: 1,
        arbitrary: each.map((items): Bulk => ({ items, times: most })),
      },
    );
  return fc
    .record({
      endpoint: endpoint(name),
      serviceAccountName: mostly(
        fc.constant('reader'),
        fc.oneof(fc.constantFrom('mallory', 'default', 'nobody'), nastyName()),
      ),
      signingSecret: fc.oneof(
        { weight: 20, arbitrary: fc.constant(fields({ name: 'signing' })) },
        {
          weight: 1,
          arbitrary: fc
            .record({
              name: objectName(),
              key: fc.constantFrom('secrets', 'password', 'constructor', '__proto__'),
            })
            .map(fields),
        },
      ),
      credentials: fc.constantFrom<Bulk | undefined>(undefined, 'token', 'proxy', 'proxy'),
      for: source(sources, { labelSelector: sources === ANY ? selector() : soundSelector() }),
      owns: some(source(sources, { owner: fc.constantFrom<Bulk>('any', 'controller') }), 16),
      watches: some(watch(sources), 16),
      reads: some(source(sources, {}), 16),
      indexes: fc.array(
        fc
          .record({ kind: ownKind(), index: indexName() })
          .map(({ kind, index }) => fields({ apiVersion: kind[0], kind: kind[1], index })),
        { maxLength: 2 },
      ),
      limits: fc.constantFrom<{ concurrency?: number; maxBatch?: number }>(
        {},
        { concurrency: 2, maxBatch: 2 },
        { concurrency: 10 },
        { concurrency: 1000, maxBatch: 100 },
      ),
      timeoutSeconds: fc.constantFrom<Bulk>(1, 2, 3),
      callbackSeconds: fc.option(fc.constantFrom<Bulk>(1, 5), {
        nil: undefined,
      }),
      webhooks: fc.option(
        fc.constantFrom('ConfigMap', 'Event').map((kind): Bulk => [
          fields({
            type: 'validating',
            name: WEBHOOK,
            apiVersion: 'v1',
            kind,
            namespaces: [PLACES.namespace],
            operations: ['CREATE', 'UPDATE'],
          }),
        ]),
        { nil: undefined, freq: 2 },
      ),
      paused: fc.oneof({ weight: 15, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.boolean() }),
      queue: fc.option(
        fc.constantFrom<Bulk>(
          fields({ maxAttempts: 1 }),
          fields({ rateLimit: fields({ perSecond: 0.001, burst: 1 }) }),
          fields({ rateLimit: fields({ perSecond: 100_000, burst: 100_000 }) }),
          fields({ debounce: fields({ seconds: 0.001, maxSeconds: 3600 }) }),
        ),
        { nil: undefined },
      ),
    })
    .map(({ limits, ...spec }) => fields({ ...spec, ...limits }));
}

/** Mostly its own function, else an address or a Service that is none of its own. */
export function endpoint(name: string): fc.Arbitrary<BulkObject> {
  const { functionUrl, gatewayUrl, secureCa, secureUrl, victimNamespace } = PLACES;
  const elsewhere = [
    gatewayUrl,
    `${functionUrl}/../../x`,
    functionUrl.replace('http://', 'http://user:password@'),
    `http://web.${victimNamespace}.svc`,
    'http://169.254.169.254/latest/meta-data',
    'http://[::ffff:169.254.169.254]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://0/',
    'http://127.1:1',
    'http://localhost:1',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'http://a\nb',
    'NaN',
  ];
  return fc.oneof(
    {
      weight: 20,
      arbitrary: fc.constant(fields({ url: `${functionUrl}/${name}` })),
    },
    {
      weight: 2,
      arbitrary: fc.constant(fields({ url: `${secureUrl}/${name}`, caBundle: secureCa })),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom(...elsewhere).map((url) => fields({ url })),
    },
    {
      weight: 1,
      arbitrary: fc
        .record({
          name: objectName(),
          port: fc.constantFrom<Bulk>(80, 'http', 65_536, -1),
          path: fc.constantFrom('/', '/../..', '//evil.example.com/', '/\n'),
        })
        .map((service) => fields({ service: fields(service) })),
    },
  );
}

/** Mostly none. Otherwise a selector that the gateway accepts, and that each key which an object names must match. */
function soundSelector(): fc.Arbitrary<Bulk | undefined> {
  const values: Bulk = { numbered: 'v'.repeat(20), times: 1000 };
  const long = fields({ matchExpressions: [fields({ key: 'app', operator: 'NotIn', values })] });
  return fc.constantFrom<Bulk | undefined>(
    undefined,
    undefined,
    undefined,
    fields({ matchLabels: fields({ app: 'a' }) }),
    long,
  );
}

/** A kind, where, and which of its events. */
export function source(
  sources: Sources,
  more: Readonly<Record<string, fc.Arbitrary<Bulk | undefined>>>,
): fc.Arbitrary<BulkObject> {
  const { namespace, victimNamespace } = PLACES;
  if (sources === SOUND) return soundSource(more);
  const kind = fc.oneof(
    { weight: 14, arbitrary: ownKind() },
    { weight: 2, arbitrary: otherKind() },
    { weight: 2, arbitrary: nastyKind() },
  );
  const namespaces = fc.oneof(
    { weight: 12, arbitrary: fc.constant<Bulk>([namespace]) },
    { weight: 1, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Bulk>([victimNamespace], [namespace, victimNamespace], [namespace, namespace], []),
    },
    { weight: 1, arbitrary: nastyName().map((each): Bulk => [each]) },
  );
  const optional = Object.fromEntries(
    Object.entries(more).map(([name, arbitrary]) => [
      name,
      mostly<Bulk | undefined>(fc.constant(undefined), arbitrary),
    ]),
  );
  return fc
    .record({
      kind,
      namespaces,
      predicate: fc.option(predicate(), { nil: undefined, freq: 2 }),
      rest: fc.record(optional),
    })
    .map(({ kind: [apiVersion, name], namespaces: where, predicate, rest }) =>
      fields({ apiVersion, kind: name, namespaces: where, predicate, ...rest }),
    );
}

export function soundSource(more: Readonly<Record<string, fc.Arbitrary<Bulk | undefined>>>): fc.Arbitrary<BulkObject> {
  return fc
    .record({
      kind: ownKind(),
      everywhere: fc.boolean(),
      predicate: fc.option(predicate(), { nil: undefined, freq: 2 }),
      rest: fc.record(more),
    })
    .map(({ kind: [apiVersion, kind], everywhere, predicate, rest }) => {
      // Of the kind of its own group it may see all: that view is shown to it in Redis.
      const namespaces = everywhere && kind === 'Thing' ? undefined : [PLACES.namespace];
      return fields({ apiVersion, kind, namespaces, predicate, ...rest });
    });
}

export function watch(sources: Sources): fc.Arbitrary<BulkObject> {
  return fc
    .record({ source: source(sources, {}), map: mapping() })
    .map(({ source, map }) => ({ fields: [...source.fields, ['map', map]] }));
}

/** A map of each kind, by paths and names of all sorts. */
export function mapping(): fc.Arbitrary<BulkObject> {
  const path = fieldPath();
  const key = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom('app', 'owner', 'wake', 'constructor', '__proto__', 'toString'),
    },
    { weight: 1, arbitrary: nastyName() },
  );
  return fc.oneof(
    indexName().map((index) => fields({ by: 'index', index })),
    fc
      .record({
        path,
        orphansOnly: fc.option(fc.boolean(), { nil: undefined }),
      })
      .map((rest) => fields({ by: 'selector', ...rest })),
    fc.constantFrom<Bulk | undefined>('any', 'controller', undefined).map((owner) => fields({ by: 'owner', owner })),
    key.map((label) => fields({ by: 'label', label })),
    key.map((annotation) => fields({ by: 'annotation', annotation })),
    path.map((each) => fields({ by: 'field', path: each })),
    fc.constant(fields({ by: 'all' })),
    fc.constant(fields({ by: 'related' })),
    cel().map((expression) => fields({ by: 'cel', expression })),
  );
}

export function indexName(): fc.Arbitrary<string> {
  return fc.oneof(
    fieldPath().map((path) => `field:${path}`),
    fc.constantFrom(...INHERITED, 'app').map((label) => `label:${label}`),
    fc.constantFrom(...INHERITED, 'wake').map((annotation) => `annotation:${annotation}`),
  );
}

/** A field's path with dots. */
export function fieldPath(): fc.Arbitrary<string> {
  return fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom(
        'spec.ref',
        'spec.refs',
        'spec.refs.a',
        'spec.selector',
        'spec.a.a.a',
        'data.ref',
        'data.password',
        'data.password',
        'rules.resourceNames',
        'metadata.ownerReferences.name',
        'metadata.labels.app',
      ),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'constructor',
        '__proto__',
        'spec.__proto__',
        'spec.constructor.name',
        'metadata.labels.constructor',
        'spec.ref.length',
        'toString.name',
        '..',
        '.',
        'spec..ref',
        'spec.',
      ),
    },
    {
      weight: 1,
      arbitrary: fc.constant(Array.from({ length: 500 }, () => 'a').join('.')),
    },
  );
}

/** Expressions that are expensive, fail, or give names that are none. */
export function cel(): fc.Arbitrary<string> {
  const numbers = (length: number): string => `[${Array.from({ length }, (_, at) => at).join()}]`;
  const loops = (length: number): string => {
    const list = numbers(length);
    return `${list}.all(a, ${list}.all(b, ${list}.all(c, a + b + c >= 0)))`;
  };
  return fc.oneof(
    fc.constantFrom(10, 30, 60).map(loops),
    fc.constantFrom(10, 60).map((length) => `${loops(length)} ? ['one'] : ['two']`),
    fc.constantFrom(
      'true',
      'object.metadata.name',
      'object.metadata.annotations.map(k, object.metadata.annotations[k])',
      "object.metadata.name.matches('(a*)*(a*)*(a*)*b')",
      "['../x', 'a/b', '..', 'constructor', '__proto__', '', '\\n']",
      '[1, 2.5, true, null]',
      '[[1, [2]], {}]',
      'object',
      'object.data.constructor',
      'object.metadata.__proto__',
      'object.spec.ref.ref.ref',
      'dyn(object).all(k, object.all(l, true))',
      '1 / 0',
      '9223372036854775807 + 1',
      "object.metadata.name + object.metadata.name == 'a'",
      'object.data.a.contains(object.data.b)',
      'int(object.data.a) > 0',
      '(',
    ),
    nastyName().map((name) => JSON.stringify(name)),
  );
}

export function predicate(): fc.Arbitrary<Bulk> {
  const changes = ['generation', 'resourceVersion', 'labels', 'annotations'];
  const leaf: fc.Arbitrary<Bulk> = fc.oneof(
    mostly(fc.constantFrom(...changes), fc.constantFrom('constructor', '')).map((changed) => fields({ changed })),
    cel().map((cel) => fields({ cel })),
    fc
      .constantFrom<Bulk>(
        fields({ matchLabels: fields({ constructor: 'a' }) }),
        fields({
          matchExpressions: [fields({ key: 'constructor', operator: 'Exists' })],
        }),
      )
      .map((labelSelector) => fields({ labelSelector })),
  );
  return fc.oneof(
    { weight: 4, arbitrary: leaf },
    {
      weight: 1,
      arbitrary: fc.array(leaf, { minLength: 1, maxLength: 8 }).map((all) => fields({ all })),
    },
    {
      weight: 1,
      arbitrary: leaf.map((items) => fields({ any: { items, times: 15 } })),
    },
    {
      weight: 1,
      arbitrary: leaf.map((each) => fields({ not: fields({ not: fields({ not: each }) }) })),
    },
  );
}
