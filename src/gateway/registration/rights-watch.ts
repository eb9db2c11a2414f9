import {
  type KubernetesObject,
  resource as resourceOf,
  type Resource,
  type Runtime,
  silentLogger,
  silentMetrics,
} from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { EventBuffer } from '../informer/reflector/event-buffer.ts';
import { ListWatch } from '../informer/reflector/list-watch.ts';
import { Reflector } from '../informer/reflector/reflector.ts';
import type { Transform, WatchEvent } from '../informer/reflector/watch-event.ts';
import { RightsChanges } from './rights-changes.ts';

export interface RightsWatchOptions {
  readonly client: ApiClient;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
}

interface ClusterRoleBinding extends KubernetesObject {
  readonly roleRef?: { readonly name?: string };
  readonly subjects?: readonly Subject[];
}

interface Subject {
  readonly kind?: string;
  readonly name?: string;
  readonly namespace?: string;
}

/** What a ClusterRoleBinding says of ServiceAccounts. */
interface Bound {
  readonly role: string;
  readonly accounts: readonly string[];
}

const RBAC = 'rbac.authorization.k8s.io/v1';
const BINDINGS = resourceOf(RBAC, 'ClusterRoleBinding', { namespaced: false });
const WATCHED: readonly Resource[] = [
  resourceOf('v1', 'ServiceAccount'),
  resourceOf(RBAC, 'Role'),
  resourceOf(RBAC, 'RoleBinding'),
  resourceOf(RBAC, 'ClusterRole', { namespaced: false }),
  BINDINGS,
];

/** Gathers the changes of this time, so that the many changes of a tenant cost one look at all functions. */
const GATHER_MS = 100;
/** The apiserver answers from its own cache of roles, which may lag behind the events, so a second review follows. */
const AGAIN_MS = 1000;
/** A binding with more subjects counts as one of all accounts. */
const MOST_SUBJECTS = 100;

/**
 * Watches ServiceAccounts, Roles, ClusterRoles and their bindings, so that functions are reviewed when their rights
 * change and not a minute later. The watch keeps the subjects of ClusterRoleBindings and nothing else. A Role or a
 * RoleBinding concerns all functions with rights in its namespace; a ClusterRole concerns the subjects of its
 * ClusterRoleBindings, and all functions with rights in some namespace. The watch reads the metadata of all kinds but
 * ClusterRoleBindings, because tenants decide how large their objects are.
 *
 * A gateway without the right to watch one of the kinds warns once and finds its changes by the review once a period,
 * as it finds those of other authorizers.
 */
export class RightsWatch {
  readonly #options: RightsWatchOptions;
  readonly #bindings = new Map<string, Bound>();
  /** Whether `#bindings` has all: not before the end of their first list, nor during a later one. */
  #knowsBindings = false;
  #changes = new RightsChanges();
  #changed = Promise.withResolvers<void>();

  constructor(options: RightsWatchOptions) {
    this.#options = options;
  }

  /** Runs until `signal` is aborted. Never rejects. @param onChanges is called twice for each change. */
  async run(onChanges: (changes: RightsChanges) => void, signal: AbortSignal): Promise<void> {
    await Promise.all([this.#report(onChanges, signal), ...WATCHED.map((each) => this.#watch(each, signal))]);
  }

  async #report(onChanges: (changes: RightsChanges) => void, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.runtime;
    signal.addEventListener('abort', () => this.#changed.resolve(), { once: true });
    while (!signal.aborted) {
      await this.#changed.promise;
      await clock.sleep(GATHER_MS, signal);
      if (signal.aborted) return;
      const changes = this.#changes;
      this.#changes = new RightsChanges();
      this.#changed = Promise.withResolvers();
      onChanges(changes);
      void clock.sleep(AGAIN_MS, signal).then(() => (signal.aborted ? undefined : onChanges(changes)));
    }
  }

  async #watch(resource: Resource, signal: AbortSignal): Promise<void> {
    const { client, runtime } = this.#options;
    const { clock, logger } = runtime;
    const buffer = new EventBuffer(clock);
    const metadataOnly = resource !== BINDINGS;
    let refused = false;
    const reflector: Reflector = new Reflector({
      resource,
      listWatch: new ListWatch(client, resource, { metadataOnly, drop: ['metadata.managedFields'] }),
      buffer,
      // What fails is tried again, and the reviews go on.
      runtime: { clock, logger: silentLogger, metrics: silentMetrics },
      random: Math.random,
      transform: WITHOUT_LABELS,
      onRefusal: () => {
        const { refusal } = reflector;
        if (refusal && !refused) {
          const what = 'a change of rights is noticed at the next review only, because the gateway may not watch them';
          logger.warn({ resource: resource.plural, error: refusal.message }, what);
        }
        refused = refusal !== undefined;
      },
    });
    await Promise.all([reflector.run(undefined, signal), this.#consume(resource, buffer, signal)]);
  }

  async #consume(resource: Resource, buffer: EventBuffer, signal: AbortSignal): Promise<void> {
    const stage = { isFirstList: true };
    while (!signal.aborted) for (const event of await buffer.take(100, signal)) this.#handle(resource, event, stage);
    buffer.end();
  }

  #handle(resource: Resource, event: WatchEvent, stage: { isFirstList: boolean }): void {
    switch (event.kind) {
      case 'init':
        if (resource !== BINDINGS) return;
        this.#knowsBindings = false;
        this.#bindings.clear();
        return;
      case 'listed':
        if (resource === BINDINGS) this.#bind(event.object);
        return;
      case 'changed':
      case 'deleted':
        this.#note(resource, event.object, event.kind === 'deleted');
        return;
      case 'init-done':
      case 'gone':
        if (resource === BINDINGS) this.#knowsBindings = true;
        // The watch has missed the changes between the last event and this list.
        if (!stage.isFirstList) this.#change((changes) => changes.ofAll());
        stage.isFirstList = false;
        return;
      case 'unserved':
      case 'back':
      case 'bookmark':
    }
  }

  #note({ kind }: Resource, object: KubernetesObject, isDeleted: boolean): void {
    const { name, namespace = '' } = object.metadata;
    switch (kind) {
      case 'ServiceAccount':
        this.#change((changes) => changes.ofAccounts([`${namespace}/${name}`]));
        return;
      case 'ClusterRole': {
        const bound = [...this.#bindings.values()].filter(({ role }) => role === name);
        this.#change((changes) => {
          if (!this.#knowsBindings) changes.ofAll();
          changes.inAnyNamespace();
          for (const { accounts } of bound) changes.ofAccounts(accounts);
        });
        return;
      }
      case 'ClusterRoleBinding': {
        const before = this.#bindings.get(name)?.accounts ?? [];
        if (isDeleted) this.#bindings.delete(name);
        const now = isDeleted ? [] : this.#bind(object);
        this.#change((changes) => changes.ofAccounts([...before, ...now]));
        return;
      }
      default:
        this.#change((changes) => changes.inNamespace(namespace));
    }
  }

  #bind(object: KubernetesObject): readonly string[] {
    const { metadata, roleRef, subjects = [] } = object as ClusterRoleBinding;
    const accounts = subjects.length > MOST_SUBJECTS ? ['*'] : subjects.flatMap(accountsOf);
    this.#bindings.set(metadata.name, { role: roleRef?.name ?? '', accounts });
    return accounts;
  }

  #change(note: (changes: RightsChanges) => void): void {
    note(this.#changes);
    if (!this.#changes.isEmpty) this.#changed.resolve();
  }
}

const ACCOUNT = 'system:serviceaccount:';
const ACCOUNTS = 'system:serviceaccounts';

/** The ServiceAccounts that a subject means, as `RightsChanges` names them. */
function accountsOf({ kind, name = '', namespace = '' }: Subject): readonly string[] {
  if (kind === 'ServiceAccount') return [`${namespace}/${name}`];
  if (kind === 'User') return name.startsWith(ACCOUNT) ? [name.slice(ACCOUNT.length).replace(':', '/')] : [];
  if (name === ACCOUNTS || name === 'system:authenticated') return ['*'];
  return name.startsWith(`${ACCOUNTS}:`) ? [`${name.slice(ACCOUNTS.length + 1)}/*`] : [];
}

/** Removes the parts of metadata that may be large. */
const WITHOUT_LABELS: Transform = {
  object: ({ metadata }) => {
    delete metadata.managedFields;
    delete metadata.annotations;
    delete metadata.labels;
  },
  // The consumer reads the parsed form alone.
  text: () => '',
};
