import type { ControlPlanePart } from './control-plane.ts';
import type { PlaneLayout } from './part-arguments.ts';
import type { PlaneApi } from './plane-api.ts';
import { nodesAreReady } from './simulated-nodes.ts';

/** Whether a started part is ready for use. */
export const readyChecks: Record<ControlPlanePart, (layout: PlaneLayout, api: PlaneApi) => Promise<boolean>> = {
  // Checks its name, since the etcd of another plane that has taken our port would be just as healthy. The other parts
  // prove their identity by their certificate.
  etcd: ({ ports, etcdName }, api) => api.hasEtcdMember(`http://127.0.0.1:${ports.etcd}`, etcdName),

  'kube-apiserver': ({ ports }, api) => api.answers(`https://127.0.0.1:${ports['kube-apiserver']}/readyz`),

  async 'kube-controller-manager'(layout, api) {
    if (!(await api.answers(`https://127.0.0.1:${layout.ports['kube-controller-manager']}/healthz`))) return false;
    if (!runsController(layout, 'serviceaccount-controller')) return true;
    // Pods are refused until their namespace has this ServiceAccount.
    return (await api.status('/api/v1/namespaces/default/serviceaccounts/default')) === 200;
  },

  'kube-scheduler': ({ ports }, api) => api.answers(`https://127.0.0.1:${ports['kube-scheduler']}/healthz`),

  kwok(layout, api) {
    // An admission plugin taints a new node, and only this controller removes the taint.
    const untainted = runsController(layout, 'node-lifecycle-controller');
    return nodesAreReady(api, layout.options.kwokNodes ?? 0, untainted);
  },
};

/** Whether kube-controller-manager runs this controller, by its name or by `*`. */
function runsController({ controllerManager }: PlaneLayout, name: string): boolean {
  if (!controllerManager) return false;
  const { controllers = ['*'] } = controllerManager;
  return !controllers.includes(`-${name}`) && (controllers.includes('*') || controllers.includes(name));
}
