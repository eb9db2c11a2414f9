import { conversionWebhook, deny, mutatingWebhook, validatingWebhook } from 'levelhook/function/webhooks';
import { Route, RouteV1 } from './kinds.ts';

/** Refuses a host that another Route has. */
export const hosts = validatingWebhook({
  name: 'hosts',
  for: Route,
  // The controller decides in the end, so a write need not wait for a cache that is behind.
  cache: { maxAgeSeconds: 30, otherwise: 'allow' },
}).validate(async ({ object, oldObject }, { cache }) => {
  const { host } = object.spec;
  if (oldObject?.spec.host === host) return;
  const { items } = await cache.list(Route, { index: { spec: 'field:spec.host', value: host } });
  const [other] = items;
  if (!other) return;
  const { namespace, name } = other.metadata;
  return deny(`the host ${host} belongs to ${namespace}/${name}`, { causes: [{ field: 'spec.host' }] });
});

export const defaults = mutatingWebhook({ name: 'defaults', for: Route }).mutate((route) => {
  route.spec.port ??= 443;
});

/** The annotation in which a v1 object keeps values that its version has no field for. */
const PATHS = 'example.com/paths';

export const versions = conversionWebhook({ name: 'versions', hub: Route }).spoke(RouteV1, {
  toHub({ spec, status, metadata }) {
    const { [PATHS]: paths, ...annotations } = metadata.annotations ?? {};
    const [host = '', port] = spec.address.split(':');
    return {
      metadata: { ...metadata, annotations },
      spec: {
        host,
        ...(port && { port: Number(port) }),
        ...(paths && { paths: JSON.parse(paths) as string[] }),
      },
      ...(status && { status }),
    };
  },
  fromHub({ spec: { host, port, paths }, status, metadata }) {
    return {
      metadata: {
        ...metadata,
        annotations: { ...metadata.annotations, ...(paths && { [PATHS]: JSON.stringify(paths) }) },
      },
      spec: { address: port === undefined ? host : `${host}:${port}` },
      ...(status && { status }),
    };
  },
});
