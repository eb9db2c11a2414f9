import * as fc from 'fast-check';
import { type Action, PLACES, type Written, WRITTEN } from './actions.ts';
import { type Bulk, type BulkObject, fields, textOf } from './bulk.ts';
import { BEHAVIOURS, type BehaviourName } from './hostile-function.ts';

type Kind = readonly [apiVersion: string, kind: string];

/** Objects have few names, so that they are changed and removed again, and those that an object of JavaScript has by itself. */
const OBJECT_NAMES = [
  'one',
  'two',
  'three',
  'four',
  'constructor',
  'tostring',
  'a.b',
  '0',
  'nan',
  'true',
  `${'x.'.repeat(126)}x`,
];
/** Those of ReconcileFunctions: at most this many run at a time. */
const FUNCTION_NAMES = ['alpha', 'beta', 'gamma', 'delta', 'constructor', 'proto', '0', 'x'.repeat(63)];

const INHERITED = [
  'constructor',
  '__proto__',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  '__defineGetter__',
  'length',
];
const TRAVERSING = [
  '..',
  '.',
  '../x',
  'a/b',
  'a/../../b',
  '../../../api/v1/secrets',
  '%2e%2e',
  '..%2f..',
  './/',
  '/',
  'a?watch=1',
  'a#b',
];
const BROKEN_LINES = ['a\nb', 'a\r\nHost: b', '\n', 'a\u0000b', 'a\nnamespace:default\nT', 'a\u2028b'];
const NUMBERS = ['NaN', 'Infinity', '-0', '1e999', '0x10', '9'.repeat(30), '-1', '00'];
const LONG = 'x'.repeat(300);

/** Sources that the gateway accepts, so that its maps, predicates and indexes are used; or of all sorts. */
type Sources = typeof SOUND | typeof ANY;
const SOUND = 'sound';
const ANY = 'any';

/**
 * All that a tenant may try, as arbitraries of fast-check, one for each kind of thing. Most of what they make is accepted by the
 * apiserver, since what it refuses harms no gateway.
 */
export class Grammar {
  /** One thing that the tenant does. */
  action(): fc.Arbitrary<Action> {
    return fc.oneof(
      { weight: 5, arbitrary: this.declaring() },
      { weight: 12, arbitrary: this.putting() },
      { weight: 2, arbitrary: this.removing() },
      { weight: 1, arbitrary: this.behaving() },
      { weight: 2, arbitrary: this.cachePath().map((path): Action => ({ do: 'ask', path })) },
    );
  }

  /** Names that lead elsewhere, or are none. */
  nastyName(): fc.Arbitrary<string> {
    const { namespace, victimNamespace } = PLACES;
    return fc.oneof(
      fc.constantFrom(...TRAVERSING),
      fc.constantFrom(...INHERITED),
      fc.constantFrom(...BROKEN_LINES),
      fc.constantFrom(...NUMBERS),
      fc.constantFrom(
        victimNamespace,
        `${victimNamespace}/plans`,
        `../${victimNamespace}/plans`,
        `${namespace}/one/two`,
      ),
      fc.constantFrom('', ' ', LONG, `${LONG}/${LONG}`, 'ä', '{}', '*'),
    );
  }

  /** Mostly one of its own objects'. */
  name(): fc.Arbitrary<string> {
    return fc.oneof(
      { weight: 2, arbitrary: fc.constantFrom(...OBJECT_NAMES) },
      { weight: 1, arbitrary: this.nastyName() },
    );
  }

  labels(): fc.Arbitrary<BulkObject> {
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
      { weight: 20, arbitrary: fc.constantFrom('a', 'one', 'two', 'constructor', 'NaN', '1e999', '', 'a..b') },
      { weight: 1, arbitrary: this.nastyName() },
    );
    return objectOf(key, value);
  }

  annotations(): fc.Arbitrary<BulkObject> {
    const key = fc.constantFrom(
      'wake',
      'constructor',
      'toString',
      'length',
      'levelhook.dev/paused',
      'kubectl.kubernetes.io/last-applied-configuration',
    );
    const value: fc.Arbitrary<Bulk> = fc.oneof(
      { weight: 8, arbitrary: this.name() },
      { weight: 1, arbitrary: fc.constant<Bulk>({ text: 'x', times: 200_000 }) },
    );
    return objectOf(key, value);
  }

  ownerReference(): fc.Arbitrary<BulkObject> {
    const owner = fc.oneof(
      { weight: 4, arbitrary: this.#ownKind() },
      { weight: 1, arbitrary: this.#otherKind() },
      { weight: 1, arbitrary: this.#nastyKind() },
    );
    return fc
      .record({
        owner,
        name: this.name(),
        uid: fc.oneof(fc.constantFrom('x', 'y', `u\nnamespace:${PLACES.victimNamespace}`, LONG), this.nastyName()),
        controller: fc.constantFrom<Bulk>(true, true, true, false, null),
      })
      .map(({ owner: [apiVersion, kind], ...rest }) => fields({ apiVersion, kind, ...rest }));
  }

  metadata(): fc.Arbitrary<BulkObject> {
    return fc
      .record({
        labels: fc.option(this.labels(), { nil: undefined }),
        annotations: fc.option(this.annotations(), { nil: undefined }),
        // One manager alone is accepted: most have a single owner.
        ownerReferences: fc.option(
          fc.oneof(
            { weight: 6, arbitrary: fc.array(this.ownerReference(), { minLength: 1, maxLength: 1 }) },
            { weight: 1, arbitrary: fc.array(this.ownerReference(), { maxLength: 4 }) },
          ),
          { nil: undefined },
        ),
      })
      .map(fields);
  }

  /** What a field that should hold a label selector may hold. */
  selector(): fc.Arbitrary<Bulk> {
    const expression = fc
      .record({
        key: fc.oneof(fc.constantFrom<Bulk>('app', 5, null), this.nastyName()),
        operator: fc.constantFrom<Bulk>('In', 'NotIn', 'Exists', 'constructor', 7),
        values: fc.constantFrom<Bulk>(['a'], 5, 'a', null, [[]], { items: 'a', times: 1000 }),
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
  value(): fc.Arbitrary<Bulk> {
    const nested = fc.record({
      nested: fc.constantFrom('list' as const, 'object' as const),
      levels: fc.constantFrom(10, 500, 3000, 5000, 9000, 10_000),
      value: this.name(),
    });
    return fc.oneof(
      { weight: 5, arbitrary: this.name() },
      { weight: 3, arbitrary: nested },
      { weight: 2, arbitrary: this.selector() },
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
      { weight: 2, arbitrary: this.name().map((each): Bulk => many(each, 3000)) },
      { weight: 1, arbitrary: this.name().map((value): Bulk => ({ keys: 3000, value })) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Bulk>(
          { text: 'x', times: 1_400_000 },
          { text: 'a\n', times: 300_000 },
          { text: '\u0000', times: 10_000 },
        ),
      },
      { weight: 1, arbitrary: objectOf(fc.constantFrom(...INHERITED), this.name()) },
    );
  }

  /** The fields by which maps and indexes find other objects. */
  body(): fc.Arbitrary<BulkObject> {
    return fc
      .record({
        ref: fc.option(this.value(), { nil: undefined }),
        refs: fc.option(fc.array(this.value(), { maxLength: 3 }), { nil: undefined }),
        selector: fc.option(this.selector(), { nil: undefined }),
        constructor: fc.option(this.name(), { nil: undefined, freq: 2 }),
      })
      .map(fields);
  }

  /** Creates or changes an object of a kind that is none of ours. */
  putting(): fc.Arbitrary<Action> {
    const { namespace } = PLACES;
    const put = (what: Written, object: fc.Arbitrary<BulkObject>): fc.Arbitrary<Action> =>
      fc.record({
        do: fc.constant('put' as const),
        what: fc.constant(what),
        name: fc.constantFrom(...OBJECT_NAMES),
        object,
      });
    const metadata = this.metadata();
    const text = fc.oneof(
      { weight: 6, arbitrary: this.name() },
      { weight: 1, arbitrary: fc.constant<Bulk>({ text: 'x', times: 900_000 }) },
    );
    const data = objectOf(fc.constantFrom('ref', 'constructor', '__proto__', 'secrets', 'password', 'toString'), text);
    return fc.oneof(
      { weight: 5, arbitrary: put('configmaps', fc.record({ metadata, data }).map(fields)) },
      {
        weight: 3,
        arbitrary: put(
          'pods',
          metadata.map((each) =>
            fields({ metadata: each, spec: fields({ containers: [fields({ name: 'main', image: 'pause' })] }) }),
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
              spec: fc.oneof({ weight: 8, arbitrary: this.body() }, { weight: 1, arbitrary: this.value() }),
            })
            .map(fields),
        ),
      },
      { weight: 2, arbitrary: put('secrets', fc.record({ metadata, stringData: data }).map(fields)) },
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
          metadata.map((each) =>
            fields({ metadata: each, spec: fields({ type: 'ExternalName', externalName: 'kubernetes.default.svc' }) }),
          ),
        ),
      },
      {
        weight: 1,
        arbitrary: put(
          'events',
          fc.record({ metadata, name: this.name() }).map(({ metadata: each, name }) =>
            fields({
              metadata: each,
              reason: 'Hostile',
              message: name,
              involvedObject: fields({ apiVersion: 'v1', kind: 'ConfigMap', namespace, name }),
            }),
          ),
        ),
      },
    );
  }

  removing(): fc.Arbitrary<Action> {
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
    );
  }

  behaving(): fc.Arbitrary<Action> {
    const names = Object.keys(BEHAVIOURS) as BehaviourName[];
    return fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 5 }).map((as) => ({ do: 'behave', as }));
  }

  /** Creates or changes a ReconcileFunction. */
  declaring(): fc.Arbitrary<Action> {
    return fc.constantFrom(...FUNCTION_NAMES).chain((name) =>
      this.declaration(name).map((spec): Action => ({
        do: 'put',
        what: 'reconcilefunctions',
        name,
        object: fields({ spec }),
      })),
    );
  }

  /** The spec of a ReconcileFunction of this name. */
  declaration(name: string): fc.Arbitrary<BulkObject> {
    return fc.oneof(
      { weight: 3, arbitrary: this.#declaration(name, SOUND) },
      { weight: 1, arbitrary: this.#declaration(name, ANY) },
    );
  }

  #declaration(name: string, sources: Sources): fc.Arbitrary<BulkObject> {
    const some = (each: fc.Arbitrary<BulkObject>, most: number): fc.Arbitrary<Bulk> =>
      fc.oneof(
        { weight: 10, arbitrary: fc.array(each, { maxLength: 2 }) },
        { weight: 1, arbitrary: each.map((items): Bulk => ({ items, times: most })) },
      );
    return fc
      .record({
        endpoint: this.endpoint(name),
        serviceAccountName: mostly(
          fc.constant('reader'),
          fc.oneof(fc.constantFrom('mallory', 'default', 'nobody'), this.nastyName()),
        ),
        signingSecret: fc.oneof(
          { weight: 20, arbitrary: fc.constant(fields({ name: 'signing' })) },
          {
            weight: 1,
            arbitrary: fc
              .record({ name: this.name(), key: fc.constantFrom('secrets', 'password', 'constructor', '__proto__') })
              .map(fields),
          },
        ),
        for: this.source(sources, sources === ANY ? { labelSelector: this.selector() } : {}),
        owns: some(this.source(sources, { owner: fc.constantFrom<Bulk>('any', 'controller') }), 16),
        watches: some(this.watch(sources), 16),
        reads: some(this.source(sources, {}), 16),
        indexes: fc.array(
          fc
            .record({ kind: this.#ownKind(), index: this.index() })
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
        callbackSeconds: fc.option(fc.constantFrom<Bulk>(1, 5), { nil: undefined }),
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
  endpoint(name: string): fc.Arbitrary<BulkObject> {
    const { functionUrl, gatewayUrl, victimNamespace } = PLACES;
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
      { weight: 20, arbitrary: fc.constant(fields({ url: `${functionUrl}/${name}` })) },
      { weight: 2, arbitrary: fc.constantFrom(...elsewhere).map((url) => fields({ url })) },
      {
        weight: 1,
        arbitrary: fc
          .record({
            name: this.name(),
            port: fc.constantFrom<Bulk>(80, 'http', 65_536, -1),
            path: fc.constantFrom('/', '/../..', '//evil.example.com/', '/\n'),
          })
          .map((service) => fields({ service: fields(service) })),
      },
    );
  }

  /** A kind, where, and which of its events. */
  source(sources: Sources, more: Readonly<Record<string, fc.Arbitrary<Bulk>>>): fc.Arbitrary<BulkObject> {
    const { namespace, victimNamespace } = PLACES;
    if (sources === SOUND) return this.#soundSource(more);
    const kind = fc.oneof(
      { weight: 14, arbitrary: this.#ownKind() },
      { weight: 2, arbitrary: this.#otherKind() },
      { weight: 2, arbitrary: this.#nastyKind() },
    );
    const namespaces = fc.oneof(
      { weight: 12, arbitrary: fc.constant<Bulk>([namespace]) },
      { weight: 1, arbitrary: fc.constant(undefined) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Bulk>([victimNamespace], [namespace, victimNamespace], [namespace, namespace], []),
      },
      { weight: 1, arbitrary: this.nastyName().map((each): Bulk => [each]) },
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
        predicate: fc.option(this.predicate(), { nil: undefined, freq: 2 }),
        rest: fc.record(optional),
      })
      .map(({ kind: [apiVersion, name], namespaces: where, predicate, rest }) =>
        fields({ apiVersion, kind: name, namespaces: where, predicate, ...rest }),
      );
  }

  #soundSource(more: Readonly<Record<string, fc.Arbitrary<Bulk>>>): fc.Arbitrary<BulkObject> {
    return fc
      .record({
        kind: this.#ownKind(),
        everywhere: fc.boolean(),
        predicate: fc.option(this.predicate(), { nil: undefined, freq: 2 }),
        rest: fc.record(more),
      })
      .map(({ kind: [apiVersion, kind], everywhere, predicate, rest }) => {
        // Of the kind of its own group it may see all: that view is shown to it in Redis.
        const namespaces = everywhere && kind === 'Thing' ? undefined : [PLACES.namespace];
        return fields({ apiVersion, kind, namespaces, predicate, ...rest });
      });
  }

  watch(sources: Sources): fc.Arbitrary<BulkObject> {
    return fc
      .record({ source: this.source(sources, {}), map: this.map() })
      .map(({ source, map }) => ({ fields: [...source.fields, ['map', map]] }));
  }

  /** A map of each kind, by paths and names of all sorts. */
  map(): fc.Arbitrary<BulkObject> {
    const path = this.path();
    const key = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('app', 'owner', 'wake', 'constructor', '__proto__', 'toString') },
      { weight: 1, arbitrary: this.nastyName() },
    );
    return fc.oneof(
      this.index().map((index) => fields({ by: 'index', index })),
      fc
        .record({ path, orphansOnly: fc.option(fc.boolean(), { nil: undefined }) })
        .map((rest) => fields({ by: 'selector', ...rest })),
      fc.constantFrom<Bulk | undefined>('any', 'controller', undefined).map((owner) => fields({ by: 'owner', owner })),
      key.map((label) => fields({ by: 'label', label })),
      key.map((annotation) => fields({ by: 'annotation', annotation })),
      path.map((each) => fields({ by: 'field', path: each })),
      fc.constant(fields({ by: 'all' })),
      this.cel().map((expression) => fields({ by: 'cel', expression })),
    );
  }

  index(): fc.Arbitrary<string> {
    return fc.oneof(
      this.path().map((path) => `field:${path}`),
      fc.constantFrom(...INHERITED, 'app').map((label) => `label:${label}`),
      fc.constantFrom(...INHERITED, 'wake').map((annotation) => `annotation:${annotation}`),
    );
  }

  /** A field's path with dots. */
  path(): fc.Arbitrary<string> {
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
      { weight: 1, arbitrary: fc.constant(Array.from({ length: 500 }, () => 'a').join('.')) },
    );
  }

  /** Expressions that are expensive, fail, or give names that are none. */
  cel(): fc.Arbitrary<string> {
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
        '(',
      ),
      this.nastyName().map((name) => JSON.stringify(name)),
    );
  }

  predicate(): fc.Arbitrary<Bulk> {
    const changes = ['generation', 'resourceVersion', 'labels', 'annotations'];
    const leaf: fc.Arbitrary<Bulk> = fc.oneof(
      mostly(fc.constantFrom(...changes), fc.constantFrom('constructor', '')).map((changed) => fields({ changed })),
      this.cel().map((cel) => fields({ cel })),
      fc
        .constantFrom<Bulk>(
          fields({ matchLabels: fields({ constructor: 'a' }) }),
          fields({ matchExpressions: [fields({ key: 'constructor', operator: 'Exists' })] }),
        )
        .map((labelSelector) => fields({ labelSelector })),
    );
    return fc.oneof(
      { weight: 4, arbitrary: leaf },
      { weight: 1, arbitrary: fc.array(leaf, { minLength: 1, maxLength: 8 }).map((all) => fields({ all })) },
      { weight: 1, arbitrary: leaf.map((items) => fields({ any: { items, times: 15 } })) },
      { weight: 1, arbitrary: leaf.map((each) => fields({ not: fields({ not: fields({ not: each }) }) })) },
    );
  }

  /** A path of the cache API that the tenant has no business with. */
  cachePath(): fc.Arbitrary<string> {
    const { namespace, victimNamespace } = PLACES;
    const version = fc.oneof(
      fc.constantFrom('/api/v1', '/apis/apps/v1', `/apis/${PLACES.group}/v1`),
      this.#nastyKind().map(([apiVersion]) => `/apis/${apiVersion}`),
    );
    const where = fc.constantFrom(
      '',
      `/namespaces/${namespace}`,
      `/namespaces/${victimNamespace}`,
      `/namespaces/${namespace}%2f..%2f${victimNamespace}`,
      '/namespaces/..',
      '/namespaces/constructor',
    );
    const what = fc.oneof(
      fc.constantFrom('configmaps', 'pods', 'secrets', 'things', 'constructor', '__proto__', '*', 'pods/status'),
      this.nastyName().map(encodeURIComponent),
    );
    const query = fc.oneof(
      fc.constantFrom(
        '',
        '?watch=1',
        '?limit=-1',
        '?limit=NaN',
        '?continue=e30',
        '?continue=..',
        '?labelSelector=%5B',
        '?fieldSelector=metadata.namespace%3D..',
        '?resourceVersion=1e999',
        '?pretty=true',
      ),
      this.nastyName().map((name) => `?fieldSelector=metadata.name%3D${encodeURIComponent(name)}`),
    );
    return fc
      .record({ version, where, what, name: fc.option(this.name().map(encodeURIComponent), { nil: undefined }), query })
      .map(
        ({ name, ...rest }) =>
          `${rest.version}${rest.where}/${rest.what}${name === undefined ? '' : `/${name}`}${rest.query}`,
      );
  }

  /** Kinds that the tenant has, which it may read in its own namespace. */
  #ownKind(): fc.Arbitrary<Kind> {
    const { group } = PLACES;
    return fc.constantFrom<Kind>(
      ['v1', 'ConfigMap'],
      ['v1', 'ConfigMap'],
      ['v1', 'Pod'],
      ['v1', 'Secret'],
      ['v1', 'Event'],
      ['v1', 'ServiceAccount'],
      [`${group}/v1`, 'Thing'],
      [`${group}/v1`, 'Thing'],
      [`${group}/v1`, 'Thing'],
    );
  }

  /** Kinds that it may not read, or that there are none of. */
  #otherKind(): fc.Arbitrary<Kind> {
    const { group } = PLACES;
    return fc.constantFrom<Kind>(
      ['v1', 'Node'],
      ['v1', 'Namespace'],
      ['apps/v1', 'Deployment'],
      ['rbac.authorization.k8s.io/v1', 'Role'],
      ['levelhook.dev/v1alpha1', 'ReconcileFunction'],
      ['authorization.k8s.io/v1', 'SubjectAccessReview'],
      [`${group}/v1`, 'Nothing'],
      [`${group}/v9`, 'Thing'],
      ['nothing.example.com/v1', 'Thing'],
    );
  }

  /** Names of kinds that lead elsewhere. */
  #nastyKind(): fc.Arbitrary<Kind> {
    const { group, victimNamespace } = PLACES;
    const climbing = ['ConfigMap', 'Secret', 'Pod'].flatMap((kind): Kind[] => [
      [`${group}/../../api/v1`, kind],
      [`${group}/.././../../api/v1`, kind],
      [`${group}/../../api/v1/namespaces/${victimNamespace}`, kind],
      ['./v1', kind],
      ['../api/v1', kind],
      ['v1/../v1', kind],
    ]);
    return fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(...climbing) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<Kind>(
          ['apps/./v1', 'Deployment'],
          ['apps/././v1', 'Deployment'],
          ['apps%2fv1', 'Deployment'],
          ['v1?watch=1', 'Pod'],
          ['v1#', 'Pod'],
        ),
      },
      { weight: 1, arbitrary: fc.tuple(this.nastyName(), fc.constant('ConfigMap')) },
      { weight: 1, arbitrary: fc.tuple(fc.constantFrom('v1', `${group}/v1`), this.nastyName()) },
    );
  }
}

/** An object of a few fields, no name twice. */
function objectOf(name: fc.Arbitrary<string>, value: fc.Arbitrary<Bulk>): fc.Arbitrary<BulkObject> {
  return fc
    .uniqueArray(fc.tuple(name, value), { maxLength: 3, selector: ([each]) => each })
    .map((entries) => ({ fields: entries }));
}

/** The same element as often as a request may hold it, and no more often than this. */
function many(items: Bulk, most: number): Bulk {
  return { items, times: Math.min(most, Math.floor(1_200_000 / (textOf(items).length + 1))) };
}

function mostly<T>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return fc.oneof({ weight: 20, arbitrary: usual }, { weight: 1, arbitrary: other });
}
