import { isLoopback } from '../contract/secure-url.ts';

/** What `levelhook start` prints once it is ready: where everything is, and what to try. */
export function whatNext(at: {
  readonly kubeconfig: string;
  /** Of the gateway's own server. */
  readonly url: string;
  /** Of the control plane that was brought up; undefined for an existing cluster. */
  readonly kubectl: { readonly directory: string; readonly onPath: boolean } | undefined;
  readonly sample: boolean;
  /** Whether it runs from the sources, where the command `levelhook` is a script of npm. */
  readonly fromSources: boolean;
}): string {
  const { kubeconfig, url, kubectl, sample, fromSources } = at;
  const [npm, dashes] = fromSources ? ['npm run -s', ' --'] : ['npx', ''];
  const onLoopback = isLoopback(new URL(url).hostname);
  const paragraphs = [
    [
      `kubeconfig  ${kubeconfig}`,
      ...(onLoopback ? [`dashboard   ${url}/dashboard`] : []),
      `health      ${url}/readyz?verbose`,
      `metrics     ${url}/metrics`,
    ],
    [
      'Try in another terminal:',
      `  export KUBECONFIG=${kubeconfig}`,
      ...(kubectl && !kubectl.onPath ? [`  export PATH="$PATH:${kubectl.directory}"`] : []),
      '  kubectl get replicasets,pods -A',
      ...(sample
        ? [
            '  kubectl scale replicaset hello --replicas=10',
            '  kubectl delete pod -l app=hello',
            `  ${npm} levelhook explain replicaset default/hello${dashes} --gateway ${url}`,
          ]
        : []),
      ...(kubectl ? ['This cluster has no nodes: pods are made and deleted, and stay Pending.'] : []),
    ],
    ['Every trigger is shown below: time, controller, key, reason, duration, result. Ctrl-C stops everything.'],
  ];
  return `\n${paragraphs.map((lines) => lines.map((line) => `  ${line}\n`).join('')).join('\n')}\n`;
}
