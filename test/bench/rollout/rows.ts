import type { Row } from '../comparison.ts';

const ARM = ['built-in', 'gateway', 'redis', 'replicaset', 'deployment'];
const RESOURCES = ['deployments/status', 'replicasets', 'replicasets/status', 'pods', 'events'];

export function rolloutRows(): readonly Row[] {
  const main = true;
  const of = (name: string): readonly string[] => ARM.map((process) => `${name}.${process}`);
  return [
    {
      label: 'until all pods are available, s',
      figures: ['available'],
      main,
      panel: 'Until all pods are available, s',
    },
    { label: 'until none is left, s', figures: ['gone'], main, panel: 'Until none is left, s' },
    { label: 'CPU, s', figures: of('cpu'), sum: true, main, panel: 'CPU, all processes, s' },
    { label: 'by process: gateway, Redis, replicaset, deployment', figures: of('cpu'), main },
    { label: 'CPU of kube-controller-manager for the other controllers, s', figures: ['cpu.other'] },
    { label: 'peak memory, MB', figures: of('peak'), sum: true, main, panel: 'Peak memory, all processes, MB' },
    { label: 'by process: gateway, Redis, replicaset, deployment', figures: of('peak') },
    { label: 'requests to the apiserver for each pod', figures: ['requests'], main },
    { label: 'writes', figures: ['writes'], main },
    ...RESOURCES.map((resource) => ({ label: `of them ${resource}`, figures: [`writes.${resource}`] })),
  ];
}
