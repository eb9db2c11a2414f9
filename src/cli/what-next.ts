import { isLoopback } from '../contract/secure-url.ts';

/** The addresses, each once it answers: the cluster first, then the gateway. */
export function addresses(at: { readonly kubeconfig: string } | { readonly url: string }): string {
  if ('kubeconfig' in at) return `  kubeconfig  ${at.kubeconfig}\n`;
  const { url } = at;
  const onLoopback = isLoopback(new URL(url).hostname);
  const lines = [
    ...(onLoopback ? [`dashboard   ${url}/dashboard`] : []),
    `health      ${url}/readyz?verbose`,
    `metrics     ${url}/metrics`,
  ];
  return lines.map((line) => `  ${line}\n`).join('');
}

/** The suggestions that `levelhook start` prints once it is ready. */
export function whatNext(at: {
  readonly kubeconfig: string;
  /** Of the gateway's own server. */
  readonly url: string;
  /** The control plane that was started; undefined for an existing cluster. */
  readonly kubectl: { readonly directory: string; readonly onPath: boolean } | undefined;
  readonly sample: boolean;
  /** The controllers that the functions replace. */
  readonly replaced: readonly string[];
  /** Whether it runs from the sources, where the command `levelhook` is a script of npm. */
  readonly fromSources: boolean;
}): string {
  const { kubeconfig, url, kubectl, sample, replaced, fromSources } = at;
  const [npm, dashes] = fromSources ? ['npm run -s', ' --'] : ['npx', ''];
  const hasSample = sample && replaced.includes('replicaset-controller');
  const paragraphs = [
    [
      'Try in another terminal:',
      `  export KUBECONFIG=${quoted(kubeconfig)}`,
      ...(kubectl && !kubectl.onPath ? [`  export PATH="$PATH:${kubectl.directory}"`] : []),
      '  kubectl get replicasets,pods -A',
      ...(sample
        ? ['  kubectl -n default scale replicaset hello --replicas=10', '  kubectl -n default delete pod -l app=hello']
        : []),
      ...(hasSample
        ? [`  ${npm} levelhook explain replicaset default/hello${dashes} --gateway ${url}`]
        : [`  ${npm} levelhook get controllers${dashes} --gateway ${url}`]),
      ...(kubectl ? ['This cluster has no nodes: pods are made and deleted, and stay Pending.'] : []),
    ],
    ['Every trigger is shown below: time, controller, key, reason, duration, result. Ctrl-C stops everything.'],
  ];
  return `\n${paragraphs.map((lines) => lines.map((line) => `  ${line}\n`).join('')).join('\n')}\n`;
}

/** For a shell, where a path may have a space. */
const quoted = (path: string): string => (/^[\w./:@%+=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
