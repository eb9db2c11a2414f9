import { expect, it } from 'vitest';
import { requestInfo } from './request-info.ts';

// As the cases of apiserver's pkg/endpoints/request/requestinfo_test.go.
it.each([
  ['GET', '/api/v1/namespaces', 'list  namespaces - -'],
  ['GET', '/api/v1/namespaces/other', 'get  namespaces other other'],
  ['GET', '/api/v1/namespaces/other/pods', 'list  pods other -'],
  ['GET', '/api/v1/namespaces/other/pods/foo', 'get  pods other foo'],
  ['HEAD', '/api/v1/namespaces/other/pods/foo', 'get  pods other foo'],
  ['GET', '/api/v1/pods', 'list  pods - -'],
  ['GET', '/api/v1/namespaces/other/pods/foo/status', 'get  pods other foo /status'],
  ['GET', '/api/v1/namespaces/other/status', 'get  namespaces other other /status'],
  ['PUT', '/api/v1/namespaces/other/finalize', 'update  namespaces other other /finalize'],
  ['GET', '/api/v1/watch/namespaces/other/pods', 'watch  pods other -'],
  ['GET', '/apis/apps/v1/namespaces/other/deployments/a/scale', 'get apps deployments other a /scale'],
  ['POST', '/api/v1/namespaces/other/pods', 'create  pods other -'],
  ['PATCH', '/api/v1/namespaces/other/pods/foo', 'patch  pods other foo'],
  ['DELETE', '/api/v1/namespaces/other/pods/foo', 'delete  pods other foo'],
  ['DELETE', '/api/v1/namespaces/other/pods', 'deletecollection  pods other -'],
  ['GET', '/api/v1/nodes/n/', 'get  nodes - n'],
])('%s %s is understood', (method, path, expected) => {
  const info = requestInfo(method, path, new URLSearchParams());
  if (info.kind !== 'resource') throw new Error(info.kind);
  const { verb, group, resource, namespace = '-', name = '-', subresource } = info;
  expect(`${verb} ${group} ${resource} ${namespace} ${name}${subresource ? ` /${subresource}` : ''}`).toBe(expected);
});

it.each(['/api', '/api/', '/apis', '/api/v1', '/apis/apps', '/apis/apps/v1', '/version'])(
  '%s is a document',
  (path) => {
    expect(requestInfo('GET', path, new URLSearchParams()).kind).toBe('document');
  },
);

it.each(['/', '/nope', '/api/v1//pods', '/openapi/v3', '/healthz/ping'])('%s is nothing of the kind', (path) => {
  expect(requestInfo('GET', path, new URLSearchParams()).kind).toBe('other');
});

it.each([
  ['watch=true', 'watch'],
  ['watch=1', 'watch'],
  ['watch', 'watch'],
  ['watch=maybe', 'watch'],
  ['watch=false', 'list'],
  ['watch=0', 'list'],
])('?%s is a %s', (query, verb) => {
  expect(requestInfo('GET', '/api/v1/pods', new URLSearchParams(query))).toMatchObject({ verb });
});
