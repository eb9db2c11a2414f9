import { stringify } from 'yaml';
import { isDnsSubdomain, isNamespace, messageOf, shown, UserError } from '../core/index.ts';
import type { SigningKey } from '../contract/index.ts';
import { ApiClient } from '../gateway/apiserver/api-client.ts';
import { loadCredentials } from '../gateway/apiserver/credentials.ts';
import { discoverResource } from '../gateway/apiserver/discovery.ts';
import { variableOf } from '../gateway/config/config.ts';
import { readSigningKeys } from '../gateway/config/signing-keys.ts';
import { kindsOf } from '../gateway/controllers/controller-factory.ts';
import { describeFunction } from '../gateway/endpoint/describe.ts';
import { Endpoint } from '../gateway/endpoint/endpoint.ts';
import { readConfig } from '../gateway/index.ts';
import { CREDENTIALS } from '../gateway/registration/reconcile-function.ts';
import { manifestsOf } from './manifest.ts';

export interface ManifestCommandOptions {
  readonly kubeconfig?: string;
  readonly namespace: string;
  /** `NAME:PORT` */
  readonly service?: string;
  readonly serviceAccount?: string;
  readonly secret?: string;
  /** `own`, `token` or `proxy` */
  readonly credentials?: string;
}

/**
 * Asks a function, wherever it runs now, what it declares, and prints what it takes to run it in a cluster, for
 * `kubectl apply`. Takes the gateway's signing secrets from the environment, since a function answers signed requests
 * only.
 */
export async function manifestCommand(url: string, options: ManifestCommandOptions): Promise<void> {
  const { kubeconfig, namespace, service } = options;
  const { signingSecrets } = readConfig(process.env);
  const keys = await readSigningKeys({ functionUrls: [url], signingSecrets });
  if (!URL.canParse(url)) throw new UserError(`"${url}" is not the URL of a function.`);
  checkName('--namespace', namespace, isNamespace);
  checkName('--service-account', options.serviceAccount, isDnsSubdomain);
  checkName('--secret', options.secret, isDnsSubdomain);
  const credentials = credentialsOf(options.credentials);
  const description = await described(url, keys);
  const resources = await discovered(kubeconfig, kindsOf(description));
  const { serviceAccount = description.name, secret = `${description.name}-signing` } = options;
  const endpoint = service === undefined ? { url } : { service: serviceOf(service) };
  const manifests = manifestsOf(description, resources, { namespace, serviceAccount, secret, endpoint, credentials });
  process.stdout.write(`# The cluster also needs the function's signing secret:
#   kubectl -n ${namespace} create secret generic ${secret} --from-literal=secrets="$${variableOf('signingSecrets')}"
${manifests.map((each) => stringify(each)).join('---\n')}`);
}

function checkName(option: string, text: string | undefined, is: (text: unknown) => boolean): void {
  if (text === undefined || is(text)) return;
  throw new UserError(`${option}: ${shown(text)} is not a valid name for it.`);
}

async function described(url: string, keys: readonly SigningKey[]) {
  const endpoint = new Endpoint(url, keys, { connections: 1 });
  try {
    return await describeFunction(endpoint);
  } catch (error) {
    throw new UserError(`The function did not describe itself (${messageOf(error)}).`);
  } finally {
    await endpoint.close();
  }
}

/** Rights name a kind by its plural, which the cluster knows alone. */
async function discovered(kubeconfig: string | undefined, kinds: ReturnType<typeof kindsOf>) {
  const credentials = await loadCredentials(kubeconfig);
  try {
    const client = new ApiClient(credentials);
    return await Promise.all(kinds.map((kind) => discoverResource(client, kind)));
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(
      `The apiserver at ${credentials.server} cannot be used (${messageOf(error)}): check the kubeconfig.`,
    );
  } finally {
    await credentials.close();
  }
}

function credentialsOf(text: string | undefined): (typeof CREDENTIALS)[number] | undefined {
  const found = CREDENTIALS.find((each) => each === text);
  if (text !== undefined && !found)
    throw new UserError(`--credentials ${shown(text)} must be ${CREDENTIALS.join(', ')}.`);
  return found;
}

function serviceOf(text: string): { name: string; port: number | string } {
  const [name = '', port = '', ...more] = text.split(':');
  if (!isNamespace(name) || !port || more.length > 0)
    throw new UserError(`--service ${text} must be a name, a colon and a port.`);
  return { name, port: /^[0-9]+$/.test(port) ? Number(port) : port };
}
