import { z } from 'zod';
import { days, namespacedName, setting } from './setting.ts';

/** The server for reviews, and its certificate. */
export const webhookSettings = {
  webhookListen: setting(
    'LEVELHOOK_WEBHOOK_LISTEN',
    z
      .string()
      .transform(listenOf)
      .refine((listen) => listen !== undefined, 'must be host:port, such as 0.0.0.0:9443')
      .optional(),
    'where apiservers post the reviews of webhooks by https: `host:port`, see [webhooks](../../src/gateway/http/webhooks/README.md)',
    'nowhere',
  ),
  // Read again when they change.
  webhookTlsCertFile: setting(
    'LEVELHOOK_WEBHOOK_TLS_CERT_FILE',
    z.string().optional(),
    'PEM file of the certificate chain there',
  ),
  webhookTlsKeyFile: setting('LEVELHOOK_WEBHOOK_TLS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
  webhookClientCaFile: setting(
    'LEVELHOOK_WEBHOOK_CLIENT_CA_FILE',
    z.string().optional(),
    'PEM file of the authorities that certify apiservers alone: reviews of admission are taken from these clients only, and get the cache, see [webhooks](../../src/gateway/http/webhooks/README.md)',
    'none: anyone may send reviews, which get no cache',
  ),
  // One of the two lets the gateway make the certificate itself.
  webhookService: setting(
    'LEVELHOOK_WEBHOOK_SERVICE',
    namespacedName(),
    'Service by which the apiserver reaches the webhooks, `namespace/name`: the gateway makes a certificate for it',
  ),
  webhookUrl: setting(
    'LEVELHOOK_WEBHOOK_URL',
    z
      .url({ protocol: /^https$/, error: 'must be an https:// URL' })
      .refine((url) => URL.canParse(url) && isPlain(new URL(url)), 'must have no user, query or fragment')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'the same for an apiserver that reaches them at `https://HOST:PORT`',
  ),
  webhookSecret: setting(
    'LEVELHOOK_WEBHOOK_SECRET',
    namespacedName(),
    'Secret of that certificate and its CA, `namespace/name`',
    "in a cluster `levelhook-webhooks` in the pod's namespace",
  ),
  webhookCaMs: setting(
    'LEVELHOOK_WEBHOOK_CA_DAYS',
    days.prefault('365'),
    'days that this CA is valid; a new one comes when two thirds are over',
  ),
  webhookCertificateMs: setting(
    'LEVELHOOK_WEBHOOK_CERTIFICATE_DAYS',
    days.prefault('90'),
    'days that the certificate is valid, at most those of the CA; renewed when two thirds are over',
  ),
};

/** `host:port`; an IPv6 address in brackets. */
function listenOf(text: string): { readonly host: string; readonly port: number } | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s[\]]+)):([0-9]{1,5})$/.exec(text) ?? [];
  const [host, port] = [bracketed ?? plain, Number(digits)];
  return host === undefined || port > 65_535 ? undefined : { host, port };
}

function isPlain({ hash, password, search, username }: URL): boolean {
  return [hash, password, search, username].every((part) => part === '');
}
