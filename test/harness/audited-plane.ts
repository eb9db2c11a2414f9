import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';

/** A request as the apiserver's audit log has it. */
export interface AuditedRequest {
  readonly verb: string;
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly query: URLSearchParams;
  readonly code: number;
}

/** etcd and an apiserver of a test's own, which writes down every request of the user `gateway`. */
export interface AuditedPlane {
  readonly plane: ControlPlane;
  /** The gateway's kubeconfig: its requests alone are in the log. */
  readonly gatewayKubeconfig: string;
  /** What the gateway has asked for so far, in order; watches from when they were opened. */
  requests(): Promise<AuditedRequest[]>;
  stop(): Promise<void>;
}

interface AuditEvent {
  stage: string;
  verb: string;
  requestURI: string;
  objectRef?: { resource?: string; namespace?: string };
  responseStatus?: { code?: number };
}

const POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', users: ['gateway'] }, { level: 'None' }],
};

export async function startAuditedPlane(): Promise<AuditedPlane> {
  const directory = await mkdtemp(join(tmpdir(), 'levelhook-audit-'));
  const policy = join(directory, 'policy.json');
  const log = join(directory, 'audit.log');
  await writeFile(policy, JSON.stringify(POLICY));
  const plane = await startControlPlane({
    users: [{ name: 'gateway', groups: ['system:masters'] }],
    apiserverArguments: [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`],
  });
  return {
    plane,
    gatewayKubeconfig: plane.kubeconfigFor('gateway'),
    async requests() {
      const text = await readFile(log, 'utf8').catch(() => '');
      const events = text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as AuditEvent);
      return events.filter(countsOnce).map(({ verb, requestURI, objectRef, responseStatus }) => ({
        verb,
        resource: objectRef?.resource ?? '',
        namespace: objectRef?.namespace,
        query: new URL(requestURI, 'https://apiserver').searchParams,
        code: responseStatus?.code ?? 0,
      }));
    },
    async stop() {
      await plane.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A watch is written down when it opens and when it ends: take the first of those that opened. */
function countsOnce({ verb, stage, responseStatus }: AuditEvent): boolean {
  if (verb !== 'watch') return stage === 'ResponseComplete';
  return stage === 'ResponseStarted' || (responseStatus?.code ?? 0) >= 400;
}
