import { number, setting } from './setting.ts';

/** How many requests the apiserver gets. */
export const apiserverSettings = {
  // Each controller has the limits of controller-runtime's client for a whole operator; all together have those of ten
  // operators. An apiserver serves 400 reads and 200 writes at a time by default, to all clients together.
  kubeApiQps: setting(
    'LEVELHOOK_KUBE_API_QPS',
    number.positive().prefault('200'),
    'requests a second to the apiserver, of the gateway with all its controllers; those of one namespace have half',
  ),
  kubeApiBurst: setting(
    'LEVELHOOK_KUBE_API_BURST',
    number.int().min(1).prefault('400'),
    'so many at once after a pause',
  ),
  kubeApiControllerQps: setting(
    'LEVELHOOK_KUBE_API_CONTROLLER_QPS',
    number.positive().prefault('20'),
    'requests a second to the apiserver, on behalf of each controller',
  ),
  kubeApiControllerBurst: setting(
    'LEVELHOOK_KUBE_API_CONTROLLER_BURST',
    number.int().min(1).prefault('30'),
    'so many at once after a pause',
  ),
};
