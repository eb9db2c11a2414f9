import { z } from 'zod';

import { targetPlatform } from '../binaries/platform.ts';
import { kubernetesVersion, kwokVersion } from '../binaries/versions.ts';
import type { PlaneApi } from './plane-api.ts';

const nodeSchema = z.object({
  spec: z.object({ taints: z.array(z.unknown()).optional() }),
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })).optional() }),
});

/** Creates the nodes `sim-0`, `sim-1`, ..., which kwok then keeps alive. */
export async function createNodes(api: PlaneApi, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) await api.create('/api/v1/nodes', simulatedNode(index));
}

/** Whether `count` nodes are Ready and, with `untainted`, free of taints, so that pods may be scheduled there. */
export async function nodesAreReady(api: PlaneApi, count: number, untainted: boolean): Promise<boolean> {
  const nodes = (await api.list('/api/v1/nodes')).map((node) => nodeSchema.parse(node));
  const ready = nodes.filter(
    ({ spec, status }) =>
      status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') &&
      !(untainted && spec.taints?.length),
  );
  return ready.length >= count;
}

function simulatedNode(index: number): object {
  const name = `sim-${index}`;
  const { arch } = targetPlatform();
  const capacity = { cpu: '16', memory: '64Gi', pods: '250', 'ephemeral-storage': '200Gi' };
  const podCIDR = `10.244.${index % 256}.0/24`;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      annotations: { 'kwok.x-k8s.io/node': 'fake' },
      labels: {
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': arch,
        'beta.kubernetes.io/os': 'linux',
        'beta.kubernetes.io/arch': arch,
      },
    },
    spec: { podCIDR, podCIDRs: [podCIDR] },
    status: {
      capacity,
      allocatable: capacity,
      addresses: [
        { type: 'InternalIP', address: `192.0.2.${10 + (index % 200)}` },
        { type: 'Hostname', address: name },
      ],
      nodeInfo: {
        architecture: arch,
        operatingSystem: 'linux',
        kubeletVersion: `v${kubernetesVersion}`,
        bootID: name,
        machineID: name,
        systemUUID: name,
        kernelVersion: '6.1.0',
        osImage: 'simulated',
        containerRuntimeVersion: `kwok://${kwokVersion}`,
        kubeProxyVersion: '',
      },
    },
  };
}
