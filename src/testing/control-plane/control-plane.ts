import type { BinaryName } from '../binaries/binary-name.ts';
import type { ResolveBinaryOptions } from '../binaries/binary-options.ts';

/** The processes of a control plane in the order of their start; they stop in reverse. */
export const controlPlaneParts = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kwok',
] as const;

export type ControlPlanePart = (typeof controlPlaneParts)[number];

/** A user of the apiserver's token file. RBAC is on: without a group or a binding the user has almost no rights. */
export interface ControlPlaneUser {
  readonly name: string;
  /** Default: none. `system:masters` has all rights. */
  readonly groups?: readonly string[];
}

export interface KubeControllerManagerOptions {
  /**
   * kube-controller-manager's `--controllers`: `['*', '-replicaset-controller']` runs all default controllers but one.
   * Default: `['*']`.
   */
  readonly controllers?: readonly string[];
  /** More flags, after ours. Default: none. */
  readonly extraArguments?: readonly string[];
}

/** `env`, `envtestIndex` and `onProgress` are the options of `resolveBinary`. */
export interface ControlPlaneOptions extends ResolveBinaryOptions {
  /**
   * The directory for data, keys and logs. It is absent, empty, or that of an earlier plane, which then goes on with
   * its objects, tokens and kubeconfig files, at other ports. `stop()` leaves it in place. Default: a new temporary
   * directory, which `stop()` removes.
   */
  readonly directory?: string;
  /** Runs kube-controller-manager. Default: false. Without it no ServiceAccounts are created, and pods need none. */
  readonly kubeControllerManager?: boolean | KubeControllerManagerOptions;
  /** Runs kube-scheduler. Default: true if there are kwok nodes, else false. */
  readonly kubeScheduler?: boolean;
  /**
   * Nodes `sim-0`, `sim-1`, ... simulated by kwok: their pods start, become ready, fail and end as a kubelet would
   * report it. With kube-controller-manager but without its node-lifecycle-controller they keep the taint
   * `node.kubernetes.io/not-ready` until a client removes it. Default: 0, no kwok.
   */
  readonly kwokNodes?: number;
  /** More flags for kube-apiserver, after ours. Default: none. */
  readonly apiserverArguments?: readonly string[];
  /** Users in addition to the admin, each with a kubeconfig of its own. Default: none. */
  readonly users?: readonly ControlPlaneUser[];
}

/** A running control plane. Every process listens on 127.0.0.1 alone. */
export interface ControlPlane {
  /** `https://127.0.0.1:PORT`. */
  readonly server: string;
  /** Kubeconfig of the admin (group `system:masters`), mode 0600, with the CA and a token inside. */
  readonly kubeconfig: string;
  readonly directory: string;
  /** The programs that were started, by name. */
  readonly binaries: Readonly<Partial<Record<BinaryName, string>>>;
  /** Kubeconfig of one of `users`. Throws `UserError` on any other name. */
  kubeconfigFor(userName: string): string;
  /**
   * Sends a signal (default SIGKILL). If the signal ends a process, resolves when the part has ended. Does nothing to a
   * part that does not run.
   */
  kill(part: ControlPlanePart, signal?: NodeJS.Signals): Promise<void>;
  /**
   * Starts a part that has ended, with the same arguments, port and data, and resolves when it is ready. Does nothing
   * if it runs. Throws `UserError` for a part that this plane never had.
   */
  start(part: ControlPlanePart): Promise<void>;
  /** The process id, or undefined when the part does not run. */
  pid(part: ControlPlanePart): number | undefined;
  logFile(part: ControlPlanePart): string;
  /** Stops all started processes, in reverse order: SIGTERM, after ten seconds SIGKILL. May be called twice. */
  stop(): Promise<void>;
}
