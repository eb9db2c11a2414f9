import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { type AuditedRequest, AuditLog } from './audit-log.ts';

export type { AuditedRequest } from './audit-log.ts';

/** etcd and an apiserver of a test's own, which writes down every request of the user `gateway`. */
export interface AuditedPlane {
  readonly plane: ControlPlane;
  /** The gateway's kubeconfig: its requests alone are in the log. */
  readonly gatewayKubeconfig: string;
  /** What the gateway has asked for so far, in order; watches from when they were opened. */
  requests(): Promise<AuditedRequest[]>;
  stop(): Promise<void>;
}

export async function startAuditedPlane(): Promise<AuditedPlane> {
  const log = await AuditLog.create({ users: ['gateway'] });
  const plane = await startControlPlane({
    users: [{ name: 'gateway', groups: ['system:masters'] }],
    apiserverArguments: log.apiserverArguments,
  });
  return {
    plane,
    gatewayKubeconfig: plane.kubeconfigFor('gateway'),
    requests: () => log.requests(),
    async stop() {
      await plane.stop();
      await log.remove();
    },
  };
}
