/**
 * The versions of the control plane's programs. The Go modules in infra/control-plane pin the same versions; a test
 * compares them.
 */
export const kubernetesVersion = '1.36.3';
export const etcdVersion = '3.7.3';
export const kwokVersion = '0.8.0';
/** The oldest Go that builds them. */
export const goVersion = '1.26';
