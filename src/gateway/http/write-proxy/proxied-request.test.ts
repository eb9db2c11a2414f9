import { describe, expect, it } from 'vitest';
import { StatusError } from '../cache-api/kubernetes-status.ts';
import { proxiedRequest } from './proxied-request.ts';

const ask = (method: string, url: string) => {
  const { pathname, searchParams } = new URL(`http://g${url}`);
  return proxiedRequest(method, pathname, searchParams, 'u');
};
const codeOf = (method: string, url: string): number | undefined => {
  try {
    ask(method, url);
    return undefined;
  } catch (error) {
    return error instanceof StatusError ? error.status.code : 0;
  }
};

describe('a request of a function', () => {
  it.each([
    ['GET', '/api/v1/namespaces/a/pods/x', 'get', false],
    ['GET', '/apis/apps/v1/deployments?limit=5', 'list', false],
    ['GET', '/apis/apps/v1', 'discover', false],
    ['POST', '/api/v1/namespaces/a/pods', 'create', true],
    ['POST', '/api/v1/namespaces/a/pods/x/eviction', 'create', true],
    ['PUT', '/apis/apps/v1/namespaces/a/deployments/x/status', 'update', true],
    ['PATCH', '/apis/apps/v1/namespaces/a/deployments/x/scale', 'patch', true],
    ['PUT', '/api/v1/namespaces/a/finalize', 'update', true],
    ['GET', '/apis', 'discover', false],
    ['DELETE', '/api/v1/namespaces/a/pods/x', 'delete', true],
    ['DELETE', '/api/v1/namespaces/a/pods?labelSelector=a', 'deletecollection', true],
  ])('%s %s is a %s', (method, url, verb, isWrite) => {
    expect(ask(method, url)).toMatchObject({ verb, isWrite, path: url.split('?', 1)[0] });
  });

  it.each([
    ['GET', '/api/v1/namespaces/a/pods/x/log', 405],
    ['GET', '/api/v1/namespaces/a/pods/x/exec', 405],
    ['POST', '/api/v1/namespaces/a/pods/x/exec?command=sh', 405],
    ['POST', '/api/v1/namespaces/a/pods/x%2Fexec', 405],
    ['GET', '/api/v1/nodes/n/proxy/metrics', 404],
    ['POST', '/api/v1/namespaces/a/serviceaccounts/s/token', 405],
    ['GET', '/api/v1/pods?watch=true', 405],
    ['GET', '/api/v1/watch/pods', 405],
    ['OPTIONS', '/api/v1/pods', 405],
    ['HEAD', '/api/v1/pods', 405],
    ['POST', '/apis/apps/v1', 405],
    ['GET', '/metrics', 403],
    ['GET', '/logs/kubelet.log', 403],
    ['GET', '/api/v1//pods', 403],
    ['GET', '/api/v1/pods/%E0%A4%A', 400],
    ['GET', '/api/v1/namespaces/a/pods/%0a', 404],
  ])('%s %s is refused with %i', (method, url, code) => {
    expect(codeOf(method, url)).toBe(code);
  });

  it('is sent as it was checked, whatever is encoded in its path', () => {
    expect(ask('GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x').path).toBe(
      '/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax',
    );
    expect(ask('GET', '/api/v1/namespaces/a/configmaps/x%3Fwatch=1').path).toBe(
      '/api/v1/namespaces/a/configmaps/x%3Fwatch%3D1',
    );
  });

  it('has the parameters of its kind, and no others', () => {
    const written = ask(
      'PATCH',
      '/api/v1/namespaces/a/pods/x?fieldManager=m&force=true&timeout=9h&pretty=1&dryRun=All',
    );
    expect(written.query.toString()).toBe('dryRun=All&fieldManager=m&force=true');
    expect(written.isDryRun).toBe(true);
    const read = ask('GET', '/api/v1/pods?limit=1&timeoutSeconds=9&fieldManager=m&resourceVersion=0');
    expect(read.query.toString()).toBe('limit=1&resourceVersion=0');
  });
});
