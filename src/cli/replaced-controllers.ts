/** Which of kube-controller-manager's controllers a function takes over from, by the function's folder. */
const REPLACED: ReadonlyMap<string, string | readonly string[]> = new Map<string, string | readonly string[]>([
  ['replicaset', 'replicaset-controller'],
  ['deployment', 'deployment-controller'],
  ['namespace', 'namespace-controller'],
  ['endpointslice', 'endpointslice-controller'],
  ['endpoints', 'endpoints-controller'],
  ['endpointslice-mirroring', 'endpointslice-mirroring-controller'],
  ['node-lifecycle', ['node-lifecycle-controller', 'taint-eviction-controller']],
]);

/** The controllers that must not run beside these functions: two of them would undo each other's work. */
export function replacedControllers(functions: readonly string[]): string[] {
  const replaced = functions.flatMap((name) => REPLACED.get(name) ?? []);
  return [...new Set(replaced)];
}
