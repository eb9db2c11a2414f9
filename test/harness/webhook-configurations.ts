import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { resource } from '../../src/core/index.ts';
import type { AdmissionDescription } from '../../src/contract/index.ts';
import { createCertificates } from '../../src/testing/control-plane/certificates.ts';
import type { Cluster } from './cluster.ts';
import type { Opened } from './opened.ts';
import type { Started } from './started.ts';

const validating = resource('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', { namespaced: false });
const mutating = resource('admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration', { namespaced: false });

/** A certificate for a gateway's server of reviews, and the settings that name it. */
export interface ReviewServing {
  /** In PEM form: the `caBundle`. */
  readonly ca: string;
  /** Of a gateway that knows no apiserver. */
  readonly anonymous: Record<string, string>;
  /** Of a gateway that knows the apiserver by its certificate. */
  readonly settings: Record<string, string>;
  /** What the apiserver shows to the gateway, in PEM form. */
  readonly client: { readonly cert: string; readonly key: string };
}

/** @param kubeconfig of the admin of a control plane, beside which its keys are. */
export async function reviewServing(started: Started, kubeconfig: string): Promise<ReviewServing> {
  const folder = join(await started.directory(), 'tls');
  const ca = await createCertificates(folder);
  const pki = join(dirname(kubeconfig), 'pki');
  const anonymous = {
    LEVELHOOK_WEBHOOK_LISTEN: '127.0.0.1:0',
    LEVELHOOK_WEBHOOK_TLS_CERT_FILE: join(folder, 'serving.crt'),
    LEVELHOOK_WEBHOOK_TLS_KEY_FILE: join(folder, 'serving.key'),
  };
  return {
    ca,
    anonymous,
    settings: { ...anonymous, LEVELHOOK_WEBHOOK_CLIENT_CA_FILE: join(pki, 'front-proxy-ca.crt') },
    client: {
      cert: await readFile(join(pki, 'front-proxy-client.crt'), 'utf8'),
      key: await readFile(join(pki, 'front-proxy-client.key'), 'utf8'),
    },
  };
}

/** Where a gateway takes reviews. */
export async function reviewsUrl({ process }: Opened): Promise<string> {
  return String((await process.line(({ msg }) => msg === 'listening for reviews'))['url']);
}

export interface Configured extends Pick<AdmissionDescription, 'type' | 'name' | 'operations'> {
  /** Of `apiGroups`, `apiVersions` and `resources`, one each. */
  readonly rule: readonly [string, string, string];
  readonly failurePolicy?: 'Fail' | 'Ignore';
  readonly timeoutSeconds?: number;
  /** Begins its name in the configuration, which the apiserver's metrics have. Default: there is no such part. */
  readonly label?: string;
}

export interface ConfigurationOptions {
  readonly cluster: Cluster;
  readonly started: Started;
  readonly ca: string;
  /** The only namespace whose objects are reviewed. */
  readonly namespace: string;
  /** Of the configuration. */
  readonly name: string;
}

/**
 * Creates the configuration of one webhook, which is deleted at the end. The apiserver acts on it a moment later.
 * @param url to which the webhook's name is appended: `https://127.0.0.1:9443/webhooks/guard`.
 */
export async function configureWebhook(options: ConfigurationOptions, url: string, webhook: Configured): Promise<void> {
  const { ca, cluster, name, namespace, started } = options;
  const { failurePolicy = 'Fail', label, operations, rule, timeoutSeconds = 10, type } = webhook;
  const [group, version, plural] = rule;
  const of = type === 'validating' ? validating : mutating;
  await cluster.create(of, {
    metadata: { name },
    webhooks: [
      {
        name: `${label === undefined ? '' : `${label}.`}${webhook.name}.test.levelhook.dev`,
        clientConfig: { url: `${url}/${webhook.name}`, caBundle: Buffer.from(ca).toString('base64') },
        rules: [{ apiGroups: [group], apiVersions: [version], resources: [plural], operations }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
        failurePolicy,
        timeoutSeconds,
      },
    ],
  });
  started.add(() => cluster.delete(of, { name }));
}
