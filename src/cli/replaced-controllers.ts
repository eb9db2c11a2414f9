/** The controllers of kube-controller-manager that a function replaces, by the function's folder. */
const REPLACED: ReadonlyMap<string, string | readonly string[]> = new Map<string, string | readonly string[]>([
  ['replicaset', 'replicaset-controller'],
  ['deployment', 'deployment-controller'],
  ['namespace', 'namespace-controller'],
  ['endpointslice', 'endpointslice-controller'],
  ['endpoints', 'endpoints-controller'],
  ['endpointslice-mirroring', 'endpointslice-mirroring-controller'],
  ['node-lifecycle', ['node-lifecycle-controller', 'taint-eviction-controller']],
]);

/** The controllers that must not run together with these functions, because both would undo each other's work. */
export function replacedControllers(functions: readonly string[]): string[] {
  const replaced = functions.flatMap((name) => REPLACED.get(name) ?? []);
  return [...new Set(replaced)];
}

/** The controllers of Kubernetes that work on each object of a kind. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ['apps/v1/DaemonSet', 'daemonset-controller'],
  ['apps/v1/Deployment', 'deployment-controller'],
  ['apps/v1/ReplicaSet', 'replicaset-controller'],
  ['apps/v1/StatefulSet', 'statefulset-controller'],
  ['batch/v1/CronJob', 'cronjob-controller'],
  ['batch/v1/Job', 'job-controller'],
  ['v1/Namespace', 'namespace-controller'],
  ['v1/Node', 'node-lifecycle-controller'],
  ['v1/ReplicationController', 'replicationcontroller-controller'],
  ['v1/Service', 'endpointslice-controller'],
]);

/** The built-in controller of a kind, such as `apps/v1/Deployment`, if Kubernetes has one. */
export function builtInFor(kind: string): string | undefined {
  return BUILT_IN.get(kind);
}
