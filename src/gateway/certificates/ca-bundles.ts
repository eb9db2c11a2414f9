import {
  type KubernetesObject,
  type Logger,
  messageOf,
  type Resource,
  resource,
  resourcePath,
} from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { INJECT_LABEL, INJECT_VALUE } from './inject-label.ts';

const REGISTRATION = 'admissionregistration.k8s.io/v1';
const CLUSTER_SCOPED = { namespaced: false };

/** The kinds with bundles that the gateway writes. */
export const BUNDLE_KINDS: readonly Resource[] = [
  resource(REGISTRATION, 'ValidatingWebhookConfiguration', CLUSTER_SCOPED),
  resource(REGISTRATION, 'MutatingWebhookConfiguration', CLUSTER_SCOPED),
  resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', CLUSTER_SCOPED),
];
export const BUNDLE_SELECTOR = `${INJECT_LABEL}=${INJECT_VALUE}`;

/** Where the apiserver reaches the webhooks of this gateway: at one of the two at least. */
export interface WebhookAddress {
  readonly service?: { readonly namespace: string; readonly name: string } | undefined;
  /** `https://`, without a slash at its end. */
  readonly url?: string | undefined;
}

interface ClientConfig {
  readonly url?: string;
  readonly service?: { readonly namespace: string; readonly name: string; readonly path?: string };
  readonly caBundle?: string;
}

type Configured = KubernetesObject & {
  readonly webhooks?: readonly { readonly clientConfig: ClientConfig }[];
  readonly spec?: { readonly conversion?: { readonly webhook?: { readonly clientConfig?: ClientConfig } } };
};

/** An object that was listed, and where the bundles are in it that belong to this gateway. */
export interface FoundBundles {
  readonly resource: Resource;
  readonly name: string;
  readonly resourceVersion: string;
  readonly entries: readonly { readonly pointer: string; readonly caBundle: string | undefined }[];
}

/** An object whose bundle was not that of the Secret. */
export interface LackingBundle {
  /** Kind and name. */
  readonly object: string;
  /** Why it was not written. Undefined: it was. */
  readonly error: string | undefined;
}

/** Below it are the webhooks of a gateway: no other entry with its address is one of them. */
const PATH = '/webhooks/';

/**
 * The `caBundle`s of this gateway in the webhook configurations and definitions that carry the label. An entry counts
 * by its address. All others are left alone: another gateway's, and those with addresses elsewhere.
 */
export class CaBundles {
  readonly #client: Pick<ApiClient, 'json'>;
  readonly #address: WebhookAddress;
  readonly #logger: Logger;

  constructor(client: Pick<ApiClient, 'json'>, address: WebhookAddress, logger: Logger) {
    this.#client = client;
    this.#address = address;
    this.#logger = logger;
  }

  /** As they are now: the lists are consistent reads. */
  async list(signal?: AbortSignal): Promise<FoundBundles[]> {
    const lists = await Promise.all(
      BUNDLE_KINDS.map(async (kind) => {
        const query = { labelSelector: BUNDLE_SELECTOR };
        const path = resourcePath(kind);
        const { items } = await this.#client.json<{ items: Configured[] }>({ path, query, signal });
        return items.map((item) => this.#found(kind, item));
      }),
    );
    return lists.flat().filter(({ entries }) => entries.length > 0);
  }

  /**
   * Writes the bundle where it is missing. The apiserver refuses a write when the object has changed since it was
   * listed.
   * @returns the objects that lacked it, and how many of them have it now.
   */
  async write(
    found: readonly FoundBundles[],
    bundle: string,
    signal?: AbortSignal,
  ): Promise<{ readonly lacking: readonly LackingBundle[]; readonly written: number }> {
    const caBundle = Buffer.from(bundle).toString('base64');
    const lacking: LackingBundle[] = [];
    for (const each of found) {
      if (each.entries.every((entry) => entry.caBundle === caBundle)) continue;
      const error = await this.#writeOne(each, caBundle, signal);
      lacking.push({ object: `${each.resource.kind} ${each.name}`, error });
    }
    return { lacking, written: lacking.filter(({ error }) => error === undefined).length };
  }

  /** @returns why it was not written. */
  async #writeOne(
    { entries, name, resource: kind, resourceVersion }: FoundBundles,
    caBundle: string,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    const body = [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      ...entries.map(({ pointer }) => ({ op: 'add', path: `${pointer}/caBundle`, value: caBundle })),
    ];
    const about = { kind: kind.kind, name };
    try {
      const contentType = 'application/json-patch+json';
      await this.#client.json({ method: 'PATCH', path: resourcePath(kind, { name }), body, contentType, signal });
      this.#logger.info(about, 'wrote the CA of webhooks');
      return undefined;
    } catch (error) {
      // The loop goes on to the other objects. A new CA waits until this object has its bundle.
      const message = messageOf(error);
      if (!signal?.aborted) this.#logger.warn({ ...about, error: message }, 'the CA of webhooks was not written');
      return message;
    }
  }

  #found(kind: Resource, item: Configured): FoundBundles {
    const conversion = item.spec?.conversion?.webhook?.clientConfig;
    const all = [
      ...(item.webhooks ?? []).map(({ clientConfig }, at) => ({
        pointer: `/webhooks/${at}/clientConfig`,
        clientConfig,
      })),
      ...(conversion ? [{ pointer: '/spec/conversion/webhook/clientConfig', clientConfig: conversion }] : []),
    ];
    const entries = all
      .filter(({ clientConfig }) => this.#isOwn(clientConfig))
      .map(({ pointer, clientConfig: { caBundle } }) => ({ pointer, caBundle }));
    const { name, resourceVersion } = item.metadata;
    return { resource: kind, name, resourceVersion, entries };
  }

  #isOwn({ service, url }: ClientConfig): boolean {
    const own = this.#address;
    if (url !== undefined) return own.url !== undefined && url.startsWith(own.url + PATH);
    const isService = service?.namespace === own.service?.namespace && service?.name === own.service?.name;
    return service !== undefined && isService && (service.path ?? '').startsWith(PATH);
  }
}
