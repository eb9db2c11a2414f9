/** Programs of the control plane, and programs for Kubernetes' own end-to-end tests (e2e.test, ginkgo). */
export type BinaryName =
  'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kubectl' | 'kwok' | 'e2e.test' | 'ginkgo';

/** The contents of an envtest archive. These need no build when there is an archive. */
export const envtestBinaries: readonly BinaryName[] = ['etcd', 'kube-apiserver', 'kubectl'];

export function isInEnvtestArchive(name: BinaryName): boolean {
  return envtestBinaries.includes(name);
}
