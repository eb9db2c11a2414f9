import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type KubernetesObject, type LogFields, resource, silentLogger } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import { CacheApiServer } from '../harness/cache-api-server.ts';
import { applierOf } from '../harness/applier.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { newSeed } from '../harness/random.ts';

const OPEN = 'may-be-read';
/** In everything that the tokens of this test must not reach: it appears in no answer. */
const HIDDEN = 'must-not-be-read';
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 800);

const kinds = [
  resource('v1', 'Pod'),
  resource('v1', 'Secret'),
  resource('v1', 'Namespace', { namespaced: false }),
  resource('apps/v1', 'Deployment'),
  resource('example.com/v1', 'Thing'),
];

let redis: Redis;
let server: CacheApiServer;
const failures: LogFields[] = [];
let tokens: string[];

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  const keyPrefix = uniqueName('test');
  const views: View[] = [];
  for (const kind of kinds) {
    const view = new View(redis, kind, {
      prefix: viewPrefix({ keyPrefix, clusterId: 'c', resource: kind, settings: 's' }),
    });
    await view.writer.claim('writer');
    const applier = applierOf(view);
    const object = (namespace: string, name: string, data: string): KubernetesObject & { data: object } => ({
      apiVersion: kind.apiVersion,
      kind: kind.kind,
      metadata: { ...(kind.namespaced ? { namespace } : {}), name, uid: `${namespace}-${name}`, resourceVersion: '5' },
      data: { data },
    });
    const readable = kind.kind === 'Pod' || kind.kind === 'Deployment';
    await applier.apply([
      { kind: 'init', rewound: false },
      { kind: 'listed', object: object('a', 'one', readable ? OPEN : HIDDEN) },
      { kind: 'listed', object: object('a', 'two', readable ? OPEN : HIDDEN) },
      // Of deployments only those of one namespace.
      { kind: 'listed', object: object('b', 'three', kind.kind === 'Pod' ? OPEN : HIDDEN) },
      { kind: 'init-done', version: '10', list: 0 },
    ]);
    views.push(view);
  }
  server = await CacheApiServer.start({
    views: () => views,
    logger: { ...silentLogger, error: (fields) => void failures.push(fields) },
  });
  const good = server.token({ 'v1/Pod': '*', 'apps/v1/Deployment': ['a'] });
  const [header = '', payload = '', signature = ''] = good.split('.');
  const wide = Buffer.from(JSON.stringify({ sub: 'x', aud: 'levelhook-cache', exp: 9e9, scope: { 'v1/Secret': '*' } }));
  tokens = [
    good,
    good,
    good,
    good,
    server.token({ 'v1/Pod': '*' }, 'x', -5),
    `${header}.${wide.toString('base64url')}.${signature}`,
    `${header}.${payload}`,
    '',
  ];
});
afterAll(async () => {
  await server.close();
  redis.disconnect();
});

const odd = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'binary', maxLength: 10 }),
  fc.constantFrom(
    '..',
    '.',
    '',
    '%00',
    '%2e%2e',
    '%',
    '%zz',
    '//',
    '__proto__',
    'constructor',
    '\u0000',
    'a/b',
    '*',
    '~',
  ),
);
const segment = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom(
      'api',
      'apis',
      'v1',
      'apps',
      'example.com',
      'namespaces',
      'a',
      'b',
      'pods',
      'secrets',
      'deployments',
      'things',
      'one',
      'three',
      'watch',
      'status',
      'version',
      'openapi',
    ),
  },
  { weight: 1, arbitrary: odd },
);
/** Mostly near a real one: the interesting answers are there. */
const path = fc.oneof(
  fc.array(segment, { maxLength: 8 }),
  fc
    .tuple(
      fc.constantFrom(['api', 'v1'], ['apis', 'apps', 'v1'], ['apis', 'example.com', 'v1']),
      fc.constantFrom([], ['namespaces', 'a'], ['namespaces', 'b'], ['watch', 'namespaces', 'a']),
      fc.oneof(fc.constantFrom('pods', 'secrets', 'deployments', 'things', 'namespaces'), odd),
      fc.array(segment, { maxLength: 2 }),
    )
    .map(([root, namespace, plural, rest]) => [...root, ...namespace, plural, ...rest]),
);
const name = fc.constantFrom(
  'labelSelector',
  'fieldSelector',
  'limit',
  'continue',
  'resourceVersion',
  'resourceVersionMatch',
  'watch',
  'includeObject',
  'sendInitialEvents',
  'timeoutSeconds',
  'levelhook-controlledBy',
  'levelhook-orphans',
  'levelhook-index',
  'pretty',
);
const value = fc.oneof(
  fc.constantFrom(
    '1',
    '0',
    '-1',
    '10',
    'true',
    'Exact',
    'NotOlderThan',
    'a',
    'b',
    'a in (b,c),!d',
    'a/uid',
    '/uid',
    'metadata.name=one',
    'metadata.namespace!=a',
    'field:data.data=x',
    'label:a=b',
    'None',
    'Object',
    'x>1',
    '(((',
    'field:=',
    '99999999999999999999999',
  ),
  fc.string({ unit: 'binary', maxLength: 30 }).filter((text) => text.isWellFormed()),
  // Continue tokens that nobody has made.
  fc.json({ maxDepth: 2 }).map((text) => Buffer.from(text).toString('base64url')),
  fc
    .tuple(fc.constantFrom('10', 'x'), fc.constantFrom('', ' '), odd)
    .map(([version, incarnation, after]) =>
      Buffer.from(JSON.stringify([1, version, incarnation, after])).toString('base64url'),
    ),
);
const accept = fc.oneof(
  fc.constantFrom(
    'application/json',
    '*/*',
    'application/json;as=Table;v=v1;g=meta.k8s.io',
    'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
    'application/vnd.kubernetes.protobuf',
    'application/json;as=;;=,;',
    'application/json;stream=watch',
  ),
  fc.string({ maxLength: 20 }).filter((text) => /^[\x20-\x7e]*$/.test(text)),
);
const requests = fc.record({
  path,
  query: fc.array(fc.tuple(name, value), { maxLength: 4 }),
  accept,
  token: fc.nat(),
  method: fc.oneof(
    { weight: 6, arbitrary: fc.constant('GET') },
    { weight: 1, arbitrary: fc.constantFrom('POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS') },
  ),
  raw: fc.boolean(),
});
const plain = { query: [], accept: 'application/json', token: 0, method: 'GET' as const, raw: true };
type Asked = typeof requests extends fc.Arbitrary<infer R> ? R : never;
/** A request for each way of answering, which the generated ones find sooner or later. */
const EXAMPLES: Readonly<Record<number, Asked>> = {
  200: { ...plain, path: ['api', 'v1', 'pods'] },
  400: { ...plain, path: ['api', 'v1', 'pods'], query: [['labelSelector', '(((']] },
  401: { ...plain, path: ['api', 'v1', 'pods'], token: 7 },
  403: { ...plain, path: ['api', 'v1', 'secrets'] },
  404: { ...plain, path: ['api', 'v1', 'namespaces', 'a', 'pods', 'three'] },
  405: { ...plain, path: ['api', 'v1', 'pods'], method: 'POST' },
  406: { ...plain, path: ['api', 'v1', 'pods'], accept: 'application/vnd.kubernetes.protobuf' },
};

it('the cache API answers anything with a Kubernetes object, never with 500, and never with what the token does not allow', async () => {
  const seed = newSeed();
  process.stdout.write(`cache API fuzzer: TEST_SEED=${seed}\n`);
  const seen = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(requests, async (request) => {
      const parts = request.path.map((part) => (request.raw ? part : encodeURIComponent(part.toWellFormed())));
      const query = new URLSearchParams(request.query);
      // A version from the future is waited for, as the apiserver does: asked for elsewhere.
      if (Number(query.get('resourceVersion')) > 10) query.delete('resourceVersion');
      let url: URL;
      try {
        url = new URL(`${server.url}/${parts.join('/')}?${query.toString()}`);
      } catch {
        return;
      }
      // The URL itself has resolved dots: past the API there is nothing of it.
      if (!url.pathname.startsWith('/cache')) return;
      const token = tokens[request.token % tokens.length] ?? '';
      const headers: Record<string, string> = { accept: request.accept };
      if (token) headers['authorization'] = `Bearer ${token}`;
      const answer = await fetch(url, { method: request.method, headers });
      const text = await answer.text();
      seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
      expect(answer.status === 500, `${url.href} ${JSON.stringify(failures.at(-1))}`).toBe(false);
      expect(text).not.toContain(HIDDEN);
      if (token !== tokens[0]) {
        expect(answer.status).toBe(401);
        expect(text).not.toContain(OPEN);
      }
      if (request.method !== 'HEAD') expect((JSON.parse(text) as { kind?: string }).kind ?? 'version').toBeTruthy();
    }),
    { seed, numRuns: RUNS, examples: Object.values(EXAMPLES).map((request) => [request]) },
  );
  expect(failures).toEqual([]);
  // It got somewhere: lists and objects were read, and each way of saying no was taken.
  expect([...seen.keys()]).toEqual(expect.arrayContaining(Object.keys(EXAMPLES).map(Number)));
}, 300_000);
