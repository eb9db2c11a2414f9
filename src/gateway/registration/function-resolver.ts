import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Clock,
  formatKind,
  messageOf,
  type Resource,
  groupOf,
  idOf,
  tenantNamed,
  tenantOf,
} from '../../core/index.ts';
import type { CacheScope, Description } from '../../contract/index.ts';
import { isSecureUrl } from '../../contract/secure-url.ts';
import { type ApiClient, AnswerTooLargeError } from '../../ground/apiserver/api-client.ts';
import { discoverResource, DiscoveryError } from '../../ground/apiserver/discovery.ts';
import { settingsFor } from '../informer/cache/view-settings.ts';
import type { CacheSettings } from '../../ground/config/cache-file.ts';
import { variableOf } from '../../ground/config/config.ts';
import type { CpuBudget, CpuBudgets } from '../controller/cel/cpu-budget.ts';
import type { InTurn } from '../controller/endpoint/describe.ts';
import { ExpressionError } from '../controller/cel/parse-expression.ts';
import { ParsedExpressions } from '../controller/cel/parsed-expressions.ts';
import { AccessReviews, type WantedAccess } from './access-review.ts';
import { checkBounds, checkScopes, checkSources, expressionsOf } from '../controller/handlers/check-sources.ts';
import { SourceError } from '../controller/handlers/source-error.ts';
import type { ControllerSpec } from '../controller/running/controller-spec.ts';
import { functionEndpoint } from './function-endpoint.ts';
import { decodeSpec, type ReconcileFunction, type ReconcileFunctionSpec } from './reconcile-function.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import { checkEncryptedKinds, checkSecretReviews, EncryptedKindError } from '../controller/access/encrypted-kinds.ts';
import type { FunctionAccount } from '../controller/access/account-tokens.ts';
import { accountUid } from '../controller/access/live-accounts.ts';
import {
  CredentialsError,
  type KubernetesCredentials,
  longestRunMs,
} from '../controller/access/kubernetes-credentials.ts';
import type { AskedRights } from './rights-changes.ts';
import { readSigningSecret } from './signing-secret.ts';

export interface FunctionResolverOptions {
  readonly client: ApiClient;
  readonly cache: {
    readonly settings: CacheSettings;
    readonly canEncrypt: boolean;
    /** The kinds that keys of a controller have named in addition to its description, and that can be watched. */
    readonly relatedOf: (id: string, description: Description) => Promise<Resource[]>;
  };
  /** See `functionEndpoint`. */
  readonly allowedEndpoints: readonly string[];
  /** Whether functions can reach this gateway at all. */
  readonly hasOuterUrl: boolean;
  readonly kubernetes: KubernetesCredentials;
  /** Of all controllers: expressions are parsed with their controller's. */
  readonly cpuBudgets: CpuBudgets;
  readonly clock: Clock;
}

/** The parts of a spec that are checked without the cluster. */
interface Declaration {
  readonly spec: ReconcileFunctionSpec;
  readonly parsed: ParsedExpressions;
}

/** How often it is asked whether there is processor time again. */
const BUDGET_EVERY_MS = 200;

/** A ReconcileFunction with everything that it names looked up. */
export interface ResolvedFunction {
  readonly controller: ControllerSpec;
  readonly paused: boolean | undefined;
  /** Changes when the controller must be started anew. Reveals nothing of the secret. */
  readonly hash: string;
  /**
   * Asks for its rights alone: when the rest cannot be looked at, they may have been withdrawn all the same.
   * @throws InvalidFunctionError when they have; whatever the apiserver's requests throw.
   */
  readonly checkRights: (signal: AbortSignal) => Promise<void>;
}

export interface ResolveEvents {
  readonly waiting?: () => void;
  readonly asking?: (asked: AskedRights) => void;
}

interface Wanted extends WantedAccess {
  /** It may see a part of a view only, and so nothing of that in Redis. */
  readonly isPart: boolean;
}

/** Resolves a ReconcileFunction: asks the apiserver for everything that it names, each time. */
export class FunctionResolver {
  readonly #options: FunctionResolverOptions;
  /** By spec, as the object holds it: expensive work is not repeated while the spec is the same. */
  readonly #declarations = new WeakMap<object, Declaration | InvalidFunctionError>();
  readonly #reviews: AccessReviews;

  constructor(options: FunctionResolverOptions) {
    this.#options = options;
    this.#reviews = new AccessReviews(options.clock);
  }

  /** Makes the next review of each function ask the apiserver again. */
  forgetRights(): void {
    this.#reviews.forget();
  }

  /**
   * @param on `waiting` is called when it waits for processor time that its earlier declarations have used up, and
   *   `asking` before the apiserver is asked about rights.
   * @throws InvalidFunctionError if the object, or something that it names, is invalid; and the errors of requests to
   *   the apiserver.
   */
  async resolve(object: ReconcileFunction, signal: AbortSignal, on: ResolveEvents = {}): Promise<ResolvedFunction> {
    const { allowedEndpoints, cpuBudgets } = this.#options;
    const { namespace = '' } = object.metadata;
    const tenant = tenantNamed(namespace);
    // A tenant that declares many, or wrong ones, waits for its own.
    const client = this.#options.client.for(idOf(object));
    const { spec, parsed } = await this.#declaration(object, signal, on.waiting);
    const { description, endpoint, serviceAccountName, signingSecret, paused } = spec;
    // No controller's budget: expressions go on while handshakes wait.
    const handshakes = (): CpuBudget => cpuBudgets.of(`${tenant} handshakes`, tenant);
    const where = { client, namespace, allowed: allowedEndpoints, handshakes, signal };
    const { url, rules, ca } = await functionEndpoint(endpoint, where);
    const wanted = await this.#wanted(description, client);
    const reviewed = await wantedByWebhooks(description, client);
    asRefusal(() =>
      checkScopes(
        description,
        [...wanted, ...reviewed].map(({ resource }) => resource),
      ),
    );
    this.#checkEncrypted(description, url);
    checkSecure(spec.credentials, url);
    this.#checkReachableBack(description, url, wanted);
    const { keys, version } = await readSigningSecret(client, { namespace, ...signingSecret }, signal);
    const named = { namespace, name: serviceAccountName };
    const places = new Set([...wanted, ...reviewed].flatMap(({ namespaces = [] }) => namespaces));
    on.asking?.({ account: named, namespaces: places });
    const { credentials } = spec;
    const uid = await uidOf(client, named, signal);
    const account: FunctionAccount = { ...named, uid, credentials, controller: idOf(object) };
    await this.#checkCredentials(spec, account);
    const review = async (during: AbortSignal): Promise<CacheScope> => {
      const allowed = await this.#reviews.review(client, account, wanted, during);
      await this.#reviews.review(client, account, reviewed, during);
      return allowed;
    };
    const declared = await review(signal);
    const related = await this.#allowedOf(object, description, declared, (each) =>
      this.#reviews.review(client, account, [each], signal),
    );
    for (const { namespaces = [] } of related.reviewed) for (const each of namespaces) places.add(each);
    const scope = { ...related.scope, ...declared };
    const served = [...[...wanted, ...reviewed].map(({ resource }) => resource), ...related.resources];
    const text = JSON.stringify([object.metadata.uid, description, url, ca, version, scope, served, account]);
    const hash = hashOf(text);
    const { uid: objectUid } = object.metadata;
    const declaration = hashOf(JSON.stringify([objectUid, uid, credentials, url, ca])).slice(0, 32);
    const controller: ControllerSpec = {
      id: idOf(object),
      origin: 'declared',
      declaration,
      uid: objectUid,
      tenant,
      description,
      related: related.resources,
      parsed,
      url,
      rules,
      keys,
      ca,
      scope,
      account,
      paused: paused === true,
    };
    const checkRights = async (during: AbortSignal): Promise<void> => {
      await review(during);
      for (const each of related.reviewed) await this.#reviews.review(client, account, [each], during);
    };
    return { controller, paused, hash, checkRights };
  }

  /**
   * The kinds that keys have named at run time, as far as the ServiceAccount may read them. Others are left out: a key
   * must not stop its controller.
   */
  async #allowedOf(
    object: ReconcileFunction,
    description: Description,
    declared: CacheScope,
    review: (wanted: WantedAccess) => Promise<CacheScope>,
  ): Promise<{
    readonly reviewed: readonly WantedAccess[];
    readonly resources: readonly Resource[];
    readonly scope: CacheScope;
  }> {
    const { settings: cacheSettings, relatedOf } = this.#options.cache;
    const reviewed: WantedAccess[] = [];
    let scope: CacheScope = {};
    for (const resource of await relatedOf(idOf(object), description)) {
      const kind = formatKind(resource);
      if (Object.hasOwn(declared, kind)) continue;
      const namespaces = resource.namespaced ? settingsFor(cacheSettings, kind).namespaces : undefined;
      try {
        const wanted = { field: 'spec.relatedKinds', resource, namespaces };
        scope = { ...scope, ...(await review(wanted)) };
        reviewed.push(wanted);
      } catch (error) {
        if (!(error instanceof InvalidFunctionError)) throw error;
      }
    }
    return { reviewed, resources: reviewed.map(({ resource }) => resource), scope };
  }

  async #declaration(object: ReconcileFunction, signal: AbortSignal, onWaiting?: () => void): Promise<Declaration> {
    const { spec } = object;
    const key = typeof spec === 'object' && spec !== null ? spec : {};
    let found = this.#declarations.get(key);
    if (!found) {
      try {
        found = await this.#declare(object, signal, onWaiting);
      } catch (error) {
        if (!(error instanceof InvalidFunctionError)) throw error;
        found = error;
      }
      this.#declarations.set(key, found);
    }
    if (found instanceof InvalidFunctionError) throw found;
    return found;
  }

  async #declare(object: ReconcileFunction, signal: AbortSignal, onWaiting?: () => void): Promise<Declaration> {
    const budget = this.#budgetOf(idOf(object));
    const inTurn: InTurn = async (work) => {
      await nextTurn();
      while (budget.limitMs === 0 && !signal.aborted) {
        onWaiting?.();
        await this.#options.clock.sleep(BUDGET_EVERY_MS, signal);
      }
      signal.throwIfAborted();
      return budget.run(work);
    };
    const spec = await inTurn(() => decodeSpec(object));
    const { description } = spec;
    await inTurn(() => asRefusal(() => checkBounds(description)));
    const parsed = new ParsedExpressions();
    for (const { text, variables } of expressionsOf(description)) {
      try {
        await inTurn(() => parsed.parse(text, variables));
      } catch (error) {
        // `checkSources` below reports it, with its field.
        if (error instanceof ExpressionError) break;
        throw error;
      }
    }
    await inTurn(() => asRefusal(() => checkSources(description, parsed)));
    return { spec, parsed };
  }

  /** Runs work of a controller when the processor time of its tenant allows it. */
  inTurn<T>(controller: string, work: () => T): Promise<T> {
    return this.#budgetOf(controller).inTurn(work);
  }

  #budgetOf(controller: string): CpuBudget {
    return this.#options.cpuBudgets.of(controller, tenantOf(controller));
  }

  /** Each kind with the field that names it, as the cluster has it. */
  async #wanted(description: ReconcileFunctionSpec['description'], client: ApiClient): Promise<Wanted[]> {
    const { settings: cacheSettings } = this.#options.cache;
    return Promise.all(
      fieldsOf(description).map(async ({ field, kind }) => {
        const resource = await discovered(client, kind, field);
        const cached = resource.namespaced ? settingsFor(cacheSettings, formatKind(kind)).namespaces : undefined;
        const outside = kind.namespaces?.find((namespace) => cached && !cached.includes(namespace));
        if (outside !== undefined) {
          throw new InvalidFunctionError(
            'Ready',
            'NamespaceNotCached',
            `${field}.namespaces: ${outside} is not cached by this gateway (${variableOf('cacheFile')})`,
          );
        }
        // Where the operator has named namespaces each has a view of its own.
        const isPart = kind.namespaces !== undefined && cached === undefined;
        return { field, resource, namespaces: kind.namespaces ?? cached, isPart };
      }),
    );
  }

  #checkEncrypted(description: ReconcileFunctionSpec['description'], url: string): void {
    const { settings, canEncrypt } = this.#options.cache;
    try {
      checkEncryptedKinds(description, settings, canEncrypt);
      checkSecretReviews(description, url);
    } catch (error) {
      if (!(error instanceof EncryptedKindError)) throw error;
      throw new InvalidFunctionError('Ready', error.reason, `spec.${error.field}: ${error.message}`);
    }
  }

  /** @throws InvalidFunctionError when the gateway cannot let the function act as its account. */
  async #checkCredentials(
    { credentials, endpoint, description }: ReconcileFunctionSpec,
    account: FunctionAccount,
  ): Promise<void> {
    if (credentials === 'own') return;
    const { maxBatch = 1 } = description;
    if (credentials === 'proxy' && maxBatch > MAX_PROXIED_BATCH) {
      throw new InvalidFunctionError(
        'Ready',
        'BatchTooLarge',
        `spec.maxBatch: with credentials: proxy it is ${MAX_PROXIED_BATCH} at most, since the token of a trigger names each of its keys`,
      );
    }
    try {
      await this.#options.kubernetes.check(account, longestRunMs(description), endpoint.url !== undefined);
    } catch (error) {
      if (!(error instanceof CredentialsError)) throw error;
      throw new InvalidFunctionError('Ready', error.reason, `spec.credentials: ${messageOf(error)}`);
    }
  }

  /**
   * A function that can read its kinds only through the cache API needs the API's address, which must not be sent
   * unencrypted.
   */
  #checkReachableBack(
    { callbackSeconds }: ReconcileFunctionSpec['description'],
    url: string,
    wanted: readonly Wanted[],
  ): void {
    const { hasOuterUrl } = this.#options;
    if (callbackSeconds !== undefined && !hasOuterUrl) {
      throw new InvalidFunctionError(
        'Ready',
        'CallbackImpossible',
        `spec.callbackSeconds: this gateway has no address for callbacks: it needs ${variableOf('cacheUrl')}`,
      );
    }
    const part = wanted.find(({ isPart }) => isPart);
    if (part && !(hasOuterUrl && isSecureUrl(url))) {
      throw new InvalidFunctionError(
        'Ready',
        'EndpointNotSecure',
        `spec.endpoint: ${part.field} is read through the cache API, whose token is sent over https or loopback only: serve the function by https (and give the gateway ${variableOf('cacheUrl')}), or read all namespaces from Redis`,
      );
    }
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Names of the greatest length stay below the 16 KiB that a server takes as headers. */
const MAX_PROXIED_BATCH = 20;

/** @throws InvalidFunctionError when there is no such ServiceAccount. */
async function uidOf(
  client: ApiClient,
  account: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<string> {
  const { namespace, name } = account;
  const refusal = (reason: string, message: string): InvalidFunctionError =>
    new InvalidFunctionError('Authorized', reason, `spec.serviceAccountName: ${message}`);
  try {
    const uid = await accountUid(client, account, signal);
    if (uid !== undefined) return uid;
  } catch (error) {
    if (!(error instanceof AnswerTooLargeError)) throw error;
    const message = `the metadata of the ServiceAccount ${name} in ${namespace} has more than 256 KiB`;
    throw refusal('ServiceAccountTooLarge', message);
  }
  throw refusal('ServiceAccountNotFound', `there is no ServiceAccount ${name} in ${namespace}`);
}

function checkSecure(credentials: ReconcileFunctionSpec['credentials'], url: string): void {
  if (credentials === 'own' || isSecureUrl(url)) return;
  throw new InvalidFunctionError(
    'Ready',
    'EndpointNotSecure',
    `spec.credentials: ${credentials} needs a function at https (or on loopback), since its token is sent nowhere else`,
  );
}

interface Named {
  readonly field: string;
  readonly kind: { readonly apiVersion: string; readonly kind: string; readonly namespaces?: readonly string[] };
}

function fieldsOf({ for: reconciled, owns, watches, reads }: ReconcileFunctionSpec['description']): Named[] {
  const several = (name: string, kinds: readonly Named['kind'][]): Named[] =>
    kinds.map((kind, at) => ({ field: `spec.${name}[${at}]`, kind }));
  return [
    { field: 'spec.for', kind: reconciled },
    ...several('owns', owns),
    ...several('watches', watches),
    ...several('reads', reads),
  ];
}

/**
 * Groups whose objects the apiserver checks against the writing user's rights, after a mutating webhook: a tenant's
 * webhook could let an administrator bind a role that the tenant may not bind.
 */
const BY_WRITER: ReadonlySet<string> = new Set(['rbac.authorization.k8s.io', 'certificates.k8s.io']);

/**
 * The rights that the ServiceAccount needs for the reviews of each webhook: to read the objects that it would be sent,
 * and to write them, subresources included, where its answers change them.
 */
async function wantedByWebhooks(
  { webhooks = [] }: ReconcileFunctionSpec['description'],
  client: ApiClient,
): Promise<WantedAccess[]> {
  return Promise.all(
    webhooks.map(async (webhook, at) => {
      const field = `spec.webhooks[${at}]`;
      const resource = await discovered(client, webhook, field);
      if (webhook.type !== 'validating' && BY_WRITER.has(groupOf(resource))) {
        throw new InvalidFunctionError(
          'Authorized',
          'ChecksTheWriter',
          `${field}: what is written of ${formatKind(resource)} is checked against the rights of the writer, so no ReconcileFunction may change it`,
        );
      }
      if (webhook.type === 'conversion') {
        return { field, resource, namespaces: undefined, changes: [''], isEverywhere: true };
      }
      const { namespaces, subresources = [] } = webhook;
      if (webhook.type === 'validating') return { field, resource, namespaces };
      return { field, resource, namespaces, changes: ['', ...subresources] };
    }),
  );
}

async function discovered(client: ApiClient, kind: Named['kind'], field: string): Promise<Resource> {
  try {
    return await discoverResource(client, kind);
  } catch (error) {
    if (!(error instanceof DiscoveryError)) throw error;
    throw new InvalidFunctionError('Ready', error.reason, `${field}: ${messageOf(error)}`);
  }
}

/** Runs a source's own check, and reports its error as an error of the spec. */
function asRefusal(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw new InvalidFunctionError('Ready', error.reason, `spec.${messageOf(error)}`);
  }
}
