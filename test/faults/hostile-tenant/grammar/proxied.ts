import * as fc from 'fast-check';
import { type Action, PLACES } from '../actions.ts';
import { type Bulk, fields } from '../bulk.ts';
import { OBJECT_NAMES, objectName } from './names.ts';
import { anyValue, objectBody, objectMeta } from './objects.ts';

/** A request to the Kubernetes API, which the gateway passes on for a function without credentials of its own. */
export function proxying(): fc.Arbitrary<Action> {
  return fc.oneof({ weight: 1, arbitrary: sound() }, { weight: 1, arbitrary: any() });
}

const JSON_TYPE = 'application/json';

/** A request that the apiserver accepts. */
function sound(): fc.Arbitrary<Action> {
  const { namespace } = PLACES;
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const merge = 'application/merge-patch+json';
  const large = { text: 'x', times: 900_000 };
  const named = fc.constantFrom(...OBJECT_NAMES);
  const of = (method: string, at: string, contentType: string, content?: Bulk): Action => {
    return { do: 'proxy', method, path: at, contentType, body: content, run: 'its own' };
  };
  const created = (data: Bulk): Bulk => configMap(fields({ a: data }), fields({ generateName: 'made-', namespace }));
  return fc.oneof(
    fc.constantFrom('', '?limit=1', '?watch=true&timeoutSeconds=2').map((query) => of('GET', path + query, JSON_TYPE)),
    fc.constantFrom('', '?dryRun=All').map((query) => of('POST', path + query, JSON_TYPE, created('b'))),
    fc.constant(of('POST', path, JSON_TYPE, created(large))),
    named.map((name) => of('PATCH', `${path}/${name}`, merge, fields({ data: fields({ a: 'c' }) }))),
    named.map((name) => of('PATCH', `${path}/${name}`, merge, fields({ data: fields({ a: large }) }))),
    named.map((name) => of('DELETE', `${path}/${name}`, JSON_TYPE)),
  );
}

function any(): fc.Arbitrary<Action> {
  return fc.record({
    do: fc.constant('proxy' as const),
    method: fc.constantFrom('GET', 'POST', 'POST', 'PUT', 'PATCH', 'PATCH', 'DELETE', 'HEAD'),
    path: path(),
    contentType: fc.constantFrom(
      JSON_TYPE,
      JSON_TYPE,
      'application/merge-patch+json',
      'application/json-patch+json',
      'application/strategic-merge-patch+json',
      'application/apply-patch+yaml',
      'text/plain',
    ),
    body: body(),
    run: fc.constantFrom('its own', 'its own', 'its own', '-1', '1e309', '9007199254740993', ''),
  });
}

function path(): fc.Arbitrary<string> {
  const { group, namespace, victimNamespace } = PLACES;
  const where = fc.constantFrom(
    namespace,
    namespace,
    namespace,
    victimNamespace,
    `${namespace}%2f..%2f${victimNamespace}`,
    '..',
  );
  const what = fc.constantFrom(
    '/api/v1/@/configmaps',
    '/api/v1/@/configmaps',
    `/apis/${group}/v1/@/things`,
    '/api/v1/@/secrets',
    '/api/v1/@/serviceaccounts',
    '/apis/levelhook.dev/v1alpha1/@/reconcilefunctions',
  );
  const name = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...OBJECT_NAMES).map((each) => `/${each}`) },
    { weight: 2, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: objectName().map((each) => `/${encodeURIComponent(each)}`) },
    { weight: 1, arbitrary: fc.constantFrom('/a/status', '/reader/token', '/a/log?follow=true', '/a/exec?command=id') },
  );
  const query = fc.constantFrom(
    '',
    '',
    '?dryRun=All',
    '?dryRun=All&dryRun=',
    '?dryRun=None',
    '?fieldManager=m&force=true',
    '?watch=true&timeoutSeconds=30',
    '?limit=1',
    '?propagationPolicy=Foreground',
  );
  const ofObjects = fc
    .tuple(what, where, name, query)
    .map(([of, at, object, how]) => `${of.replace('@', `namespaces/${at}`)}${object}${how}`);
  return fc.oneof(
    { weight: 12, arbitrary: ofObjects },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '/api/v1/secrets',
        '/apis/authentication.k8s.io/v1/tokenreviews',
        '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        `/api/v1/namespaces/${namespace}/../${victimNamespace}/secrets`,
        '/metrics',
        '//',
      ),
    },
  );
}

const configMap = (data: Bulk, metadata: Bulk = fields({ name: 'a', namespace: PLACES.namespace })): Bulk =>
  fields({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data });

function body(): fc.Arbitrary<Bulk | undefined> {
  return fc.oneof(
    { weight: 4, arbitrary: objectMeta().map((metadata): Bulk => configMap(fields({ a: 'b' }), metadata)) },
    { weight: 2, arbitrary: objectBody() },
    { weight: 2, arbitrary: anyValue() },
    {
      weight: 6,
      arbitrary: fc.constantFrom<Bulk | undefined>(
        undefined,
        configMap(fields({ a: { text: 'x', times: 900_000 } })),
        configMap({ keys: 60_000, value: 'x' }),
        { nested: 'list', levels: 400_000, value: 1 },
        { text: 'x', times: 4_000_000 },
        // Two names for one field: two readers may take either.
        { raw: '{"dryRun":["All"],"dryRun":[],"DryRun":["All"]}' },
        { raw: '{"dryRun":["All"],"gracePeriodSeconds":1e400}' },
        { items: fields({ op: 'test', path: '/data/a', value: 'x' }), times: 10_000 },
      ),
    },
  );
}
