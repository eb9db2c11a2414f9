import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isDns1035Label, isDnsSubdomain, isNamespace, messageOf, shown, UserError } from '../core/index.ts';
import { excludedNamespaces } from './exclusions.ts';
import type { WebhookRoute } from './webhook-manifests.ts';

/** The flags of `levelhook manifest` that say how the apiserver reaches the webhooks. */
export interface WebhookFlags {
  /** `NAMESPACE/NAME:PORT`. Default: the Service of the chart. */
  readonly gatewayService?: string;
  /** Replaces the gateway's Service: `https://HOST:PORT`. */
  readonly webhookUrl?: string;
  /** The apiserver calls the function's own Service. */
  readonly direct?: boolean;
  /** `NAMESPACE/CERTIFICATE` */
  readonly certManager?: string;
  readonly caFile?: string;
  readonly crd?: string;
  /** Namespaces whose objects are not reviewed, in addition to kube-system and the gateway's. Default: none. */
  readonly excludeNamespace?: readonly string[];
}

/** The Service of a release `levelhook` of the chart in the namespace `levelhook`. */
const CHART_SERVICE = 'levelhook/levelhook:443';

/** The first of these flags that is set, as the user wrote it. */
export function usedFlag(flags: WebhookFlags): string | undefined {
  const { caFile, certManager, crd, direct, excludeNamespace, gatewayService, webhookUrl } = flags;
  const all = {
    '--gateway-service': gatewayService,
    '--webhook-url': webhookUrl,
    '--direct': direct,
    '--cert-manager': certManager,
    '--ca-file': caFile,
    '--crd': crd,
    '--exclude-namespace': excludeNamespace,
  };
  return Object.entries(all).find(([, value]) => value !== undefined)?.[0];
}

/**
 * Parses the flags.
 * @param service of the function, for direct reviews.
 * @throws UserError with one sentence about the first flag that is wrong, or has no use with the others.
 */
export async function routeOf(
  flags: WebhookFlags,
  service: { readonly namespace: string; readonly name: string; readonly port: number | string } | undefined,
): Promise<WebhookRoute> {
  const { direct = false, webhookUrl } = flags;
  const gateway = gatewayServiceOf(flags.gatewayService ?? CHART_SERVICE);
  const authority = await authorityOf(flags);
  const excluded = excludedNamespaces(gateway.namespace, flags.excludeNamespace);
  const common = { direct, excluded, authority };
  if (!direct) return { ...common, at: webhookUrl === undefined ? { service: gateway } : { url: urlOf(webhookUrl) } };
  if (webhookUrl !== undefined) throw new UserError('--direct and --webhook-url exclude each other: name one.');
  if (authority === 'gateway') {
    throw new UserError(
      "--direct needs --cert-manager or --ca-file, since the gateway's certificate is not the function's.",
    );
  }
  if (typeof service?.port !== 'number') {
    throw new UserError('--direct needs --service with the number of the port at which the function serves https.');
  }
  return { ...common, at: { service: { ...service, port: service.port } } };
}

function gatewayServiceOf(text: string): { namespace: string; name: string; port: number } {
  const [, namespace, name, port] = /^([^/:]+)\/([^/:]+):([0-9]+)$/.exec(text) ?? [];
  if (!isNamespace(namespace) || !isDns1035Label(name) || !isPort(Number(port))) {
    throw new UserError(`--gateway-service ${shown(text)} must be NAMESPACE/NAME:PORT.`);
  }
  return { namespace, name, port: Number(port) };
}

function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535;
}

function urlOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // The apiserver refuses a user, a query and a fragment (util/webhook/validation.go).
  const isPlain = url && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (url?.protocol !== 'https:' || !isPlain) {
    throw new UserError(`--webhook-url ${shown(text)} must be an https:// URL without user, query and fragment.`);
  }
  return url.href.replace(/\/+$/, '');
}

async function authorityOf({ caFile, certManager }: WebhookFlags): Promise<WebhookRoute['authority']> {
  if (caFile !== undefined && certManager !== undefined) {
    throw new UserError('--ca-file and --cert-manager exclude each other: name one.');
  }
  if (caFile !== undefined) return { pem: await readAuthority(caFile) };
  if (certManager === undefined) return 'gateway';
  const [namespace, name, ...more] = certManager.split('/');
  if (!isNamespace(namespace) || !isDnsSubdomain(name) || more.length > 0) {
    throw new UserError(`--cert-manager ${shown(certManager)} must be NAMESPACE/CERTIFICATE.`);
  }
  return { certificate: certManager };
}

async function readAuthority(file: string): Promise<string> {
  const pem = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new UserError(`--ca-file ${file} cannot be read (${messageOf(error)}).`);
  });
  try {
    void new X509Certificate(pem);
    return pem;
  } catch {
    throw new UserError(`--ca-file ${file} holds no certificate in PEM form.`);
  }
}
