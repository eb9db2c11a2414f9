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
