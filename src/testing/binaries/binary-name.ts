/** Programs of the control plane, and those that Kubernetes' own end-to-end tests need (e2e.test, ginkgo). */
export type BinaryName =
  'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kubectl' | 'kwok' | 'e2e.test' | 'ginkgo';

/** What an envtest archive holds, and so what need not be built when there is one. */
export const envtestBinaries: readonly BinaryName[] = ['etcd', 'kube-apiserver', 'kubectl'];

export function isInEnvtestArchive(name: BinaryName): boolean {
  return envtestBinaries.includes(name);
}
