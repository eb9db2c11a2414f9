import type { Row } from '../comparison.ts';

const ARM = ['built-in', 'gateway', 'redis', 'namespace'].map((process) => `cpu.${process}`);
const WRITES = ['deletecollection', 'delete', 'patch', 'update'];

export function namespaceRows(): readonly Row[] {
  const main = true;
  return [
    { label: 'until the last one is gone, s', figures: ['gone'], main, panel: 'Until the last one is gone, s' },
    { label: 'writes', figures: ['writes'], main, panel: 'Writes' },
    ...WRITES.map((verb) => ({ label: `of them ${verb}`, figures: [`writes.${verb}`] })),
    { label: 'requests to the apiserver for each Namespace', figures: ['requests'], main },
    { label: 'CPU, s', figures: [...ARM, 'cpu.other'], sum: true, main, panel: 'CPU, all processes, s' },
    { label: 'by process: gateway, Redis, namespace', figures: ARM, main },
    { label: 'CPU of kube-controller-manager for the other controllers, s', figures: ['cpu.other'], main },
    { label: 'CPU of the apiserver, s', figures: ['cpu.apiserver'], main },
  ];
}
