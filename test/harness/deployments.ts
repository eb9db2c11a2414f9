import { type KubernetesObject, resource } from '../../src/core/index.ts';

export interface Deployment extends KubernetesObject {
  spec: {
    replicas: number;
    template: object;
    strategy: { type: string; rollingUpdate?: { maxSurge: number | string; maxUnavailable: number | string } };
  };
  status?: {
    replicas?: number;
    updatedReplicas?: number;
    availableReplicas?: number;
    observedGeneration?: number;
  };
}

export const deployments = resource<Deployment>('apps/v1', 'Deployment');

/** A Deployment of pause pods, which simulated nodes run. `spec`: fields that are to be otherwise. */
export function deployment(
  key: { namespace: string; name: string },
  replicas: number,
  spec: Readonly<Record<string, unknown>> = {},
) {
  const labels = { app: key.name };
  return {
    metadata: key,
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: podTemplate(key.name, '1'),
      ...spec,
    },
  };
}

/** The template of a revision: another word is another template. */
export function podTemplate(app: string, revision: string) {
  return {
    metadata: { labels: { app } },
    spec: {
      containers: [{ name: 'main', image: 'pause', env: [{ name: 'REVISION', value: revision }] }],
    },
  };
}

/** Whether the controllers have done all that the Deployment asks for, as its status has it. */
export function isSettled({ metadata, spec, status = {} }: Deployment): boolean {
  return (
    (status.observedGeneration ?? 0) >= (metadata.generation ?? 1) &&
    (status.replicas ?? 0) === spec.replicas &&
    (status.updatedReplicas ?? 0) === spec.replicas &&
    (status.availableReplicas ?? 0) === spec.replicas
  );
}
