import { randomUUID } from 'node:crypto';
import { type Clock, type Logger, messageOf, resourcePath } from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { idOf, ReconcileFunction, type ReconcileFunctionStatus } from './reconcile-function.ts';

export interface FunctionStatusWriterOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Writes what has become of a ReconcileFunction: its status, and an Event when it begins or ceases to be ready. */
export class FunctionStatusWriter {
  readonly #options: FunctionStatusWriterOptions;

  constructor(options: FunctionStatusWriterOptions) {
    this.#options = options;
  }

  /** @throws ApiError. An object that is gone needs no status. */
  async write(
    object: ReconcileFunction,
    before: ReconcileFunctionStatus | undefined,
    status: ReconcileFunctionStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespace, name, uid } = object.metadata;
    await this.#options.client.for(idOf(object)).json({
      method: 'PATCH',
      path: resourcePath(ReconcileFunction, { namespace, name, subresource: 'status' }),
      query: { fieldManager: 'levelhook-gateway' },
      contentType: 'application/merge-patch+json',
      // The UID: not the status of another object that has taken its name.
      body: { metadata: { uid }, status: { ...status, url: status.url ?? null } },
      signal,
    });
    await this.#event(object, before, status, signal);
  }

  async #event(
    object: ReconcileFunction,
    before: ReconcileFunctionStatus | undefined,
    status: ReconcileFunctionStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const ready = readyOf(status);
    const old = readyOf(before);
    if (!ready || (old?.status === ready.status && old.reason === ready.reason)) return;
    // Every start fills the cache: that is no news.
    if (ready.reason === 'CacheFilling') return;
    const { client, clock, logger } = this.#options;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const at = new Date(clock.now()).toISOString();
    const { apiVersion, kind } = ReconcileFunction;
    try {
      await client.for(idOf(object)).json({
        method: 'POST',
        path: `/apis/events.k8s.io/v1/namespaces/${namespace}/events`,
        body: {
          apiVersion: 'events.k8s.io/v1',
          kind: 'Event',
          metadata: { namespace, name: `${name}.${randomUUID().slice(0, 13)}` },
          eventTime: at.replace('Z', '000Z'),
          type: ready.status === 'True' ? 'Normal' : 'Warning',
          reason: ready.reason,
          note: ready.message.slice(0, 1024),
          action: 'Reconcile',
          reportingController: 'levelhook.dev/gateway',
          reportingInstance: 'levelhook-gateway',
          regarding: { apiVersion, kind, namespace, name, uid, resourceVersion },
        },
        signal,
      });
    } catch (error) {
      // The status says the same.
      logger.debug({ namespace, name, error: messageOf(error) }, 'an Event could not be written');
    }
  }
}

function readyOf(status: ReconcileFunctionStatus | undefined) {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}
