import {
  formatKind,
  groupOf,
  type GroupVersionKind,
  isDnsSubdomain,
  isNamespace,
  messageOf,
  type Resource,
  shown,
  UserError,
} from '../core/index.ts';
import type { Description, SigningKey } from '../contract/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { discoverResource } from '../ground/apiserver/discovery.ts';
import { variableOf } from '../ground/config/config.ts';
import { readSigningKeys } from '../ground/config/signing-keys.ts';
import { kindsOf } from '../gateway/controller/running/controller-factory.ts';
import { describeFunction } from '../gateway/controller/endpoint/describe.ts';
import { Endpoint } from '../gateway/controller/endpoint/endpoint.ts';
import { readConfig } from '../gateway/index.ts';
import { CREDENTIALS } from '../gateway/registration/reconcile-function.ts';
import { FUNCTION_LABEL } from './exclusions.ts';
import { formatKubectlYaml } from './kubectl-yaml.ts';
import { manifestsOf } from './manifest.ts';
import { mergedDefinitions } from './merged-definition.ts';
import { conversions, type WebhookRoute } from './webhook-manifests.ts';
import { routeOf, usedFlag, type WebhookFlags } from './webhook-route.ts';
import { patiently } from './progress.ts';

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
 * Asks a running function for its declaration, and prints the manifests that run it in a cluster, for `kubectl apply`.
 * Takes the gateway's signing secrets from the environment, since a function answers signed requests only.
 */
export async function manifestCommand(url: string, options: ManifestCommandOptions & WebhookFlags): Promise<void> {
  const { crd, kubeconfig, namespace } = options;
  const { signingSecrets } = readConfig(process.env);
  const keys = await readSigningKeys({ functionUrls: [url], signingSecrets });
  if (!URL.canParse(url)) throw new UserError(`"${url}" is not the URL of a function.`);
  checkName('--namespace', namespace, isNamespace);
  checkName('--service-account', options.serviceAccount, isDnsSubdomain);
  checkName('--secret', options.secret, isDnsSubdomain);
  const credentials = credentialsOf(options.credentials);
  const service = options.service === undefined ? undefined : serviceOf(options.service);
  const flagged = await routeOf(options, service && { namespace, ...service });
  const description = await patiently(described(url, keys), url);
  const route = routeFor(description, flagged, options);
  const resources = await patiently(discovered(kubeconfig, namedKinds(description)), 'the apiserver');
  const { serviceAccount = description.name, secret = `${description.name}-signing` } = options;
  const endpoint = service === undefined ? { url } : { service };
  const manifests = manifestsOf(description, resources, {
    namespace,
    serviceAccount,
    secret,
    endpoint,
    credentials,
    route,
  });
  const converted = route ? conversions(description, resources, { namespace, route }) : [];
  const definitions =
    crd === undefined ? converted.map((each) => formatKubectlYaml(each)) : await mergedDefinitions(crd, converted);
  const partial = crd === undefined && converted.length > 0;
  process.stdout.write(header({ namespace, secret, description, resources, partial }));
  process.stdout.write([...manifests.map((each) => formatKubectlYaml(each)), ...definitions].join('---\n'));
}

/** Notes for the reader of the manifests, as a comment above them. */
function header({
  namespace,
  secret,
  description,
  resources,
  partial,
}: {
  readonly namespace: string;
  readonly secret: string;
  readonly description: Description;
  readonly resources: readonly Resource[];
  /** Some definitions are written without their versions. */
  readonly partial: boolean;
}): string {
  const { name, webhooks = [] } = description;
  const lines = [
    "The cluster also needs the function's signing secret:",
    `  kubectl -n ${namespace} create secret generic ${secret} --from-literal=secrets="$${variableOf('signingSecrets')}"`,
    ...rightsNotes(description, resources),
  ];
  if (webhooks.length > 0) {
    lines.push(
      `No webhook reviews what carries the label ${FUNCTION_LABEL}=${name} in this namespace. Give it to all that the`,
      'function runs on (Deployment with its pod template, Service, Secret), or a dead webhook keeps you from mending it:',
      `  kubectl -n ${namespace} label secret ${secret} ${FUNCTION_LABEL}=${name}`,
    );
  }
  if (partial) {
    lines.push(
      'The CustomResourceDefinition has its conversion only, for a definition that exists. Apply the file by a field',
      'manager of its own, which leaves the other fields alone:',
      '  kubectl apply --server-side --field-manager=levelhook-manifest --force-conflicts -f FILE',
      'If the definition was applied without --server-side, kubectl warns that it cannot take its fields over, and is',
      'right to leave them: or print the whole definition with --crd.',
    );
  }
  return lines.map((line) => `# ${line}\n`).join('');
}

/** Which rights to write the manifests lack. */
function rightsNotes({ for: reconciled, owns, writes }: Description, resources: readonly Resource[]): string[] {
  if (writes) {
    return [
      'It grants the rights to read and to write what the function declares, and those that its webhooks and its',
      'owner references take.',
    ];
  }
  const missing = [
    'It grants the rights to read what the function declares, and to write only what its webhooks change. The function',
    'does not declare its own writes: declare them (`writes`), or add the rights for them to its ServiceAccount.',
  ];
  const owner = resources.find((each) => formatKind(each) === formatKind(reconciled));
  if (!owner || owns.length === 0) return missing;
  return [
    ...missing,
    'For owner references of setControllerReference add this rule, too, where OwnerReferencesPermissionEnforcement is on',
    '(OpenShift):',
    `  { apiGroups: ['${groupOf(owner)}'], resources: [${owner.plural}/finalizers], verbs: [update] }`,
  ];
}

/** Undefined when it has no webhooks. */
function routeFor({ webhooks = [] }: Description, route: WebhookRoute, flags: WebhookFlags): WebhookRoute | undefined {
  const used = usedFlag(flags);
  if (webhooks.length === 0 && used !== undefined) {
    throw new UserError(`The function declares no webhooks, so that ${used} has no use.`);
  }
  if (flags.crd !== undefined && !webhooks.some(({ type }) => type === 'conversion')) {
    throw new UserError('The function declares no conversion, so that --crd has no use.');
  }
  return webhooks.length === 0 ? undefined : route;
}

/** Without duplicates. */
function namedKinds(description: Description): GroupVersionKind[] {
  const all = [...kindsOf(description), ...(description.webhooks ?? []), ...(description.writes ?? [])];
  return [...new Map(all.map((each) => [formatKind(each), each])).values()];
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

/** Rights name a kind by its plural, which only the cluster knows. */
async function discovered(kubeconfig: string | undefined, kinds: readonly GroupVersionKind[]) {
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
