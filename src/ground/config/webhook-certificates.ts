import { UserError } from '../../core/index.ts';

/** An object, or a Service: `namespace/name` in a setting. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** How the gateway makes the certificate of its webhooks itself. */
export interface WebhookCertificates {
  /** Where they are kept. */
  readonly secret: NamespacedName;
  /** How the apiserver reaches the webhooks: what the certificate is for, and which bundles the gateway writes. */
  readonly address: { readonly service: NamespacedName | undefined; readonly url: string | undefined };
  readonly times: { readonly authorityMs: number; readonly certificateMs: number };
}

const NAME = 'levelhook-webhooks';

/**
 * @param podNamespace the namespace of the gateway's pod; undefined outside a cluster.
 * @param nameOf the variable of a setting.
 * @returns undefined when no address is set: there are no webhooks, or they have certificates from elsewhere.
 * @throws UserError with one sentence about the setting that is missing.
 */
export function webhookCertificates(
  {
    webhookService: service,
    webhookUrl: url,
    webhookSecret,
    webhookTimes: times,
  }: {
    readonly webhookService?: NamespacedName | undefined;
    readonly webhookUrl?: string | undefined;
    readonly webhookSecret?: NamespacedName | undefined;
    readonly webhookTimes: WebhookCertificates['times'];
  },
  podNamespace: string | undefined,
  nameOf: (setting: 'webhookSecret') => string,
): WebhookCertificates | undefined {
  if (!service && url === undefined) return undefined;
  const secret = webhookSecret ?? (podNamespace === undefined ? undefined : { namespace: podNamespace, name: NAME });
  if (!secret)
    throw new UserError(
      `${nameOf('webhookSecret')} is not set, and the gateway is in no namespace: name a Secret there for its certificate, such as default/levelhook-webhooks.`,
    );
  return { secret, address: { service, url }, times };
}
