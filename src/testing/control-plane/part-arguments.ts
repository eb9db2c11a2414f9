import type { ControlPlaneOptions, ControlPlanePart, KubeControllerManagerOptions } from './control-plane.ts';
import { adminName, type PlaneFiles } from './plane-files.ts';

/** The loopback port of each part, and etcd's port for peers, which it does not have. */
export type Ports = Record<ControlPlanePart | 'etcd-peer', number>;

/** The inputs of the command lines. */
export interface PlaneLayout {
  readonly files: PlaneFiles;
  readonly ports: Ports;
  readonly options: ControlPlaneOptions;
  /** The options of kube-controller-manager, or undefined when the plane has none. */
  readonly controllerManager: KubeControllerManagerOptions | undefined;
  readonly stagesFile: string;
  /** The name of this etcd, unique among all etcds. */
  readonly etcdName: string;
}

/** By default kube-controller-manager spends four seconds of its start waiting for its own rate limiter. */
const unthrottled = ['--kube-api-qps=1000', '--kube-api-burst=2000'];

/** The command line of each part, without the program itself. */
export const partArguments: Record<ControlPlanePart, (layout: PlaneLayout) => string[]> = {
  etcd({ files, ports, etcdName }) {
    const client = `http://127.0.0.1:${ports.etcd}`;
    const peer = `http://127.0.0.1:${ports['etcd-peer']}`;
    return [
      `--name=${etcdName}`,
      `--data-dir=${files.etcdData}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=${etcdName}=${peer}`,
      // The data need not survive a crash of the machine; a killed process loses no completed write.
      '--unsafe-no-fsync',
      '--log-level=warn',
      '--snapshot-count=10000',
    ];
  },

  'kube-apiserver'({ files, ports, options, controllerManager }) {
    return [
      `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${ports['kube-apiserver']}`,
      // Only written into the endpoints of the Service kubernetes, where loopback is refused: TEST-NET-1.
      '--advertise-address=192.0.2.1',
      ...servingArguments(files),
      `--client-ca-file=${files.key('ca.crt')}`,
      `--token-auth-file=${files.tokens}`,
      '--authorization-mode=RBAC',
      '--allow-privileged=true',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
      `--service-account-key-file=${files.key('service-account.pub')}`,
      `--service-account-signing-key-file=${files.key('service-account.key')}`,
      `--requestheader-client-ca-file=${files.key('front-proxy-ca.crt')}`,
      '--requestheader-allowed-names=front-proxy-client',
      '--requestheader-username-headers=X-Remote-User',
      '--requestheader-group-headers=X-Remote-Group',
      '--requestheader-extra-headers-prefix=X-Remote-Extra-',
      `--proxy-client-cert-file=${files.key('front-proxy-client.crt')}`,
      `--proxy-client-key-file=${files.key('front-proxy-client.key')}`,
      `--admission-control-config-file=${files.admission}`,
      // Without controllers, no ServiceAccount exists for pods, and the taint not-ready stays on a new node.
      ...(controllerManager ? [] : ['--disable-admission-plugins=ServiceAccount,TaintNodesByCondition']),
      ...(options.apiserverArguments ?? []),
    ];
  },

  'kube-controller-manager'({ files, ports, controllerManager }) {
    return [
      ...clientArguments(files, 'system:kube-controller-manager'),
      '--bind-address=127.0.0.1',
      `--secure-port=${ports['kube-controller-manager']}`,
      ...servingArguments(files),
      '--leader-elect=false',
      '--use-service-account-credentials=true',
      `--controllers=${(controllerManager?.controllers ?? ['*']).join(',')}`,
      `--service-account-private-key-file=${files.key('service-account.key')}`,
      `--root-ca-file=${files.key('ca.crt')}`,
      `--cluster-signing-cert-file=${files.key('ca.crt')}`,
      `--cluster-signing-key-file=${files.key('ca.key')}`,
      ...unthrottled,
      ...(controllerManager?.extraArguments ?? []),
    ];
  },

  'kube-scheduler'({ files, ports }) {
    return [
      ...clientArguments(files, 'system:kube-scheduler'),
      '--bind-address=127.0.0.1',
      `--secure-port=${ports['kube-scheduler']}`,
      ...servingArguments(files),
      '--leader-elect=false',
      ...unthrottled,
    ];
  },

  kwok({ files, ports, stagesFile }) {
    return [
      `--kubeconfig=${files.kubeconfig(adminName)}`,
      `--config=${stagesFile}`,
      '--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake',
      '--cidr=10.244.0.0/16',
      '--node-ip=192.0.2.10',
      `--server-address=127.0.0.1:${ports.kwok}`,
      '--node-lease-duration-seconds=40',
    ];
  },
};

function servingArguments(files: PlaneFiles): string[] {
  return [`--tls-cert-file=${files.key('serving.crt')}`, `--tls-private-key-file=${files.key('serving.key')}`];
}

function clientArguments(files: PlaneFiles, user: string): string[] {
  return ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'].map(
    (flag) => `--${flag}=${files.kubeconfig(user)}`,
  );
}
