import { randomBytes } from 'node:crypto';
import { resource } from '../../../src/core/index.ts';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import type { Setting } from '../../harness/levelhook.ts';
import { type Observer, startObserver } from '../../harness/observer.ts';
import type { Started } from '../../harness/started.ts';
import { Tenant } from '../../harness/tenant.ts';
import { VICTIM_FUNCTION, WEBHOOK } from './actions.ts';

export const secrets = resource('v1', 'Secret');

/** How long the apiserver waits for its function. */
const REVIEW_SECONDS = 10;
/** The label of a Secret that names a ConfigMap. */
export const CONFIG_LABEL = 'config';
/** ConfigMaps, each with a pod that it owns and a Secret that leads to it. */
export const VICTIM_OBJECTS = 6;

/** A text that is nowhere else. */
export const newCanary = (): string => `canary-${randomBytes(8).toString('hex')}`;

/** The names of the victim's objects: each holds the canary. */
export function victimNames(canary: string): { configMap: string; pod: string; secret: string }[] {
  return Array.from({ length: VICTIM_OBJECTS }, (_, at) => ({
    configMap: `config-${at}-${canary}`,
    pod: `pod-${at}-${canary}`,
    secret: `secret-${at}-${canary}`,
  }));
}

/**
 * A tenant that does nothing wrong, with a ReconcileFunction that reads its own namespace alone, over ConfigMaps, pods
 * that they own and Secrets that lead to them. Each of its objects holds the canary in its name, labels, annotations
 * and data: where that is seen outside of the namespace, something was leaked.
 */
export class Victim {
  readonly canary = newCanary();
  readonly tenant: Tenant;
  /** The UID of the last of its ConfigMaps that own a pod; '' until it has started. */
  ownerUid = '';
  readonly #cluster: Cluster;
  #observer: Observer | undefined;

  constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.tenant = new Tenant(cluster, namespace);
  }

  get namespace(): string {
    return this.tenant.namespace;
  }

  get observer(): Observer {
    if (!this.#observer) throw new Error('the victim has not been started');
    return this.#observer;
  }

  /** Creates its objects and starts its function, which is not declared yet. */
  async start(started: Started, setting: Setting): Promise<void> {
    const { tenant, namespace } = this;
    await tenant.create();
    await tenant.allow('own', [{ apiGroups: [''], resources: ['configmaps', 'pods', 'secrets'] }]);
    this.ownerUid = await createVictimObjects(this.#cluster, namespace, this.canary);
    this.#observer = started.keep(
      await startObserver(
        { ...setting, secret: tenant.secret },
        {
          name: VICTIM_FUNCTION,
          for: { resource: configMaps, namespaces: [namespace] },
          owns: [{ resource: pods, namespaces: [namespace] }],
          allows: WEBHOOK,
        },
      ),
    );
  }

  /** Declares its ReconcileFunction and waits until it runs. */
  async declare(): Promise<void> {
    const of = (kind: string) => ({ apiVersion: 'v1', kind, namespaces: [this.namespace] });
    await this.tenant.declare(VICTIM_FUNCTION, {
      endpoint: { url: this.observer.url },
      for: of('ConfigMap'),
      owns: [of('Pod')],
      watches: [{ ...of('Secret'), map: { by: 'label', label: CONFIG_LABEL } }],
      concurrency: 10,
      timeoutSeconds: 5,
      webhooks: [
        {
          type: 'validating',
          name: WEBHOOK,
          ...of('ConfigMap'),
          operations: ['CREATE'],
          timeoutSeconds: REVIEW_SECONDS,
        },
      ],
    });
    await this.tenant.until(VICTIM_FUNCTION, 'Ready', { status: 'True' });
  }

  /** What must be seen nowhere else: the canary, and how base64 has it at each offset. */
  get secretTexts(): readonly string[] {
    const inBase64 = [0, 1, 2].map((offset) => {
      const text = Buffer.from(`${'.'.repeat(offset)}${this.canary}`).toString('base64');
      // The characters that also stand for bytes around it differ from text to text.
      return text.slice(offset === 0 ? 0 : 4, -4);
    });
    return [this.canary, ...inBase64];
  }
}

/** Creates the objects of a victim. @returns the UID of the last of the ConfigMaps that own a pod. */
export async function createVictimObjects(cluster: Cluster, namespace: string, canary: string): Promise<string> {
  const labels = { canary };
  const annotations = { canary };
  let ownerUid = '';
  for (const names of victimNames(canary)) {
    const owner = await cluster.create(configMaps, {
      metadata: { namespace, name: names.configMap, labels, annotations },
      data: { canary },
    });
    const { name, uid } = owner.metadata;
    ownerUid = uid;
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }];
    await cluster.create(pods, {
      metadata: { namespace, name: names.pod, labels, annotations, ownerReferences },
      spec: { containers: [{ name: 'main', image: canary }] },
    });
    await cluster.create(secrets, {
      metadata: { namespace, name: names.secret, labels: { ...labels, [CONFIG_LABEL]: name }, annotations },
      stringData: { canary, password: canary },
    });
  }
  return ownerUid;
}
