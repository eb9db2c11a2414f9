import {
  findStatusCondition,
  formatObjectKey,
  isStatusConditionTrue,
  keyOf,
  messageOf,
  resourcePath,
  silentLogger,
  systemClock,
} from '../../core/index.ts';
import { isLoopback } from '../../contract/secure-url.ts';
import type { Description, SigningKey } from '../../contract/index.ts';
import { AccountTokens } from '../../gateway/controller/access/account-tokens.ts';
import { KubernetesCredentials } from '../../gateway/controller/access/kubernetes-credentials.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { CpuBudgets } from '../../gateway/controller/cel/cpu-budget.ts';
import type { CacheSettings } from '../../ground/config/cache-file.ts';
import type { GatewayConfig } from '../../ground/config/config.ts';
import { describeFunction } from '../../gateway/controller/endpoint/describe.ts';
import { Endpoint } from '../../gateway/controller/endpoint/endpoint.ts';
import { FunctionResolver } from '../../gateway/registration/function-resolver.ts';
import { InvalidFunctionError } from '../../gateway/registration/invalid-function-error.ts';
import { Reachability } from '../../gateway/registration/reachability.ts';
import { decodeSpec, ReconcileFunction } from '../../gateway/registration/reconcile-function.ts';
import type { Diagnoses } from './diagnosis.ts';

/** Functions that are asked at the same time. */
const AT_A_TIME = 10;
/** Further ReconcileFunctions are not asked: each costs the apiserver a dozen requests. */
const MAX_DECLARED = 200;
/** The time limit for resolving the references of one ReconcileFunction. */
const RESOLVE_MS = 10_000;

/** Asks the functions at configured URLs. @returns the description of each function that answers. */
export async function checkConfigured(
  findings: Diagnoses,
  urls: readonly string[],
  { keys, ca }: { readonly keys: readonly SigningKey[]; readonly ca: string | undefined },
): Promise<Description[]> {
  const described: Description[] = [];
  await each(urls, async (url) => {
    try {
      const description = await describe(url, keys, ca);
      described.push(description);
      findings.ok(`${url} answers: controller ${description.name}`);
    } catch (error) {
      findings.problem(`${url} does not answer as a function (${messageOf(error)}): start it, or correct its URL`);
    }
  });
  return described;
}

async function describe(url: string, keys: readonly SigningKey[], ca: string | undefined): Promise<Description> {
  const endpoint = new Endpoint(url, keys, { connections: 1, ca });
  try {
    return await describeFunction(endpoint);
  } finally {
    await endpoint.close();
  }
}

export interface DeclaredOptions {
  readonly client: ApiClient;
  readonly config: GatewayConfig;
  readonly cacheSettings: CacheSettings;
  readonly canEncrypt: boolean;
  /** Outside the cluster the name of a Service cannot be resolved. */
  readonly inCluster: boolean;
}

/** Checks the ReconcileFunctions. @returns the description of each function with a valid ReconcileFunction. */
export async function checkDeclared(findings: Diagnoses, options: DeclaredOptions): Promise<Description[]> {
  const { client, config, cacheSettings, canEncrypt } = options;
  const { reconcileFunctions: which } = config;
  const { items, metadata } = await client.json<{ items: ReconcileFunction[]; metadata: { continue?: string } }>({
    path: resourcePath(ReconcileFunction),
    query: { labelSelector: which === 'all' ? undefined : which, limit: MAX_DECLARED },
  });
  if (items.length === 0) findings.ok('the cluster has no ReconcileFunction');
  if (metadata.continue)
    findings.warning(`there are more than ${MAX_DECLARED} ReconcileFunctions: the rest is not asked`);
  const resolver = new FunctionResolver({
    client,
    cache: { settings: cacheSettings, canEncrypt, relatedOf: async () => [] },
    allowedEndpoints: config.allowedEndpoints,
    hasOuterUrl: config.cacheUrl !== undefined || isLoopback(config.host),
    kubernetes: new KubernetesCredentials({
      client,
      tokens: new AccountTokens({ client, clock: systemClock, logger: silentLogger }),
      apiserver: {
        url: config.apiserverUrl ?? client.server,
        inCluster: config.apiserverUrl === undefined && options.inCluster,
        ca: async () => undefined,
      },
      proxyUrl: () => config.cacheUrl ?? (isLoopback(config.host) ? `http://${config.host}:${config.port}` : undefined),
    }),
    cpuBudgets: new CpuBudgets(),
    clock: systemClock,
  });
  const described: Description[] = [];
  await each(items, async (object) => {
    const name = formatObjectKey(keyOf(object));
    try {
      described.push(decodeSpec(object).description);
      await checkOne(findings, { name, object, resolver, inCluster: options.inCluster });
    } catch (error) {
      const what = error instanceof InvalidFunctionError ? 'cannot run' : 'could not be checked';
      findings.problem(`ReconcileFunction ${name} ${what}: ${messageOf(error)}`);
    }
    judgeStatus(findings, name, object);
  });
  return described;
}

async function checkOne(
  findings: Diagnoses,
  {
    name,
    object,
    resolver,
    inCluster,
  }: { name: string; object: ReconcileFunction; resolver: FunctionResolver; inCluster: boolean },
): Promise<void> {
  const { controller, hash } = await resolver.resolve(object, AbortSignal.timeout(RESOLVE_MS));
  if (decodeSpec(object).endpoint.service && !inCluster) {
    findings.ok(`ReconcileFunction ${name} is valid; its Service can be asked from inside the cluster only`);
    return;
  }
  const { status, message } = await new Reachability(systemClock).look(controller, hash, {
    openReason: undefined,
    lastAnswer: undefined,
  });
  if (status === 'True') findings.ok(`ReconcileFunction ${name} answers at ${controller.url}`);
  else findings.problem(`ReconcileFunction ${name} does not answer: ${message}`);
}

/** Reports the status that a gateway wrote last. */
function judgeStatus(findings: Diagnoses, name: string, { status }: ReconcileFunction): void {
  const conditions = [...(status?.conditions ?? [])];
  const ready = findStatusCondition(conditions, 'Ready');
  if (!ready) findings.warning(`ReconcileFunction ${name} has no status: see whether a gateway runs`);
  else if (!isStatusConditionTrue(conditions, 'Ready')) {
    findings.warning(`ReconcileFunction ${name} is not ready, as the gateway says: ${ready.reason}: ${ready.message}`);
  }
}

/** Calls `act` for each value, a few at a time. */
async function each<T>(values: readonly T[], act: (value: T) => Promise<void>): Promise<void> {
  const left = [...values];
  const work = async (): Promise<void> => {
    for (let value = left.shift(); value !== undefined; value = left.shift()) await act(value);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
}
