import { type Condition, type KubernetesObject, resource } from 'levelhook/function';

interface Status {
  url?: string;
  conditions?: readonly Condition[];
}

/** As `levelhook types` would write it from route.crd.yaml. */
export interface Route extends KubernetesObject {
  spec: { host: string; port?: number; paths?: string[] };
  status?: Status;
}
export const Route = resource<Route>('example.com/v2', 'Route');

/** The version before `paths`: `address: shop.example.com:8443`. */
export interface RouteV1 extends KubernetesObject {
  spec: { address: string };
  status?: Status;
}
export const RouteV1 = resource<RouteV1>('example.com/v1', 'Route');
