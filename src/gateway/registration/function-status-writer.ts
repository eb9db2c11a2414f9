import { randomUUID } from 'node:crypto';
import { ApiError, boundedText, messageOf, resource, resourcePath, type Runtime, idOf } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { DEAD_LETTERS, KEYS_FAIL, RUNNING } from './conditions.ts';
import { liveUid } from './live-uid.ts';
import {
  type PartialReconcileFunction,
  ReconcileFunction,
  type ReconcileFunctionStatus,
} from './reconcile-function.ts';

const EVENT = resource('events.k8s.io/v1', 'Event');

export interface FunctionStatusWriterOptions {
  readonly client: ApiClient;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  /** Whether this gateway leads: the others write no status. */
  readonly leads: () => boolean;
}

/** Writes the state of a ReconcileFunction: its status, and an Event when it becomes ready or not ready. */
export class FunctionStatusWriter {
  readonly #options: FunctionStatusWriterOptions;

  constructor(options: FunctionStatusWriterOptions) {
    this.#options = options;
  }

  /** Whether this gateway leads, and so may write. */
  get leads(): boolean {
    return this.#options.leads();
  }

  /** An object that is gone, or has become another one, needs no status. @throws ApiError */
  async write(
    object: PartialReconcileFunction,
    before: ReconcileFunctionStatus | undefined,
    status: ReconcileFunctionStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const { namespace, name, uid } = object.metadata;
    try {
      await this.#options.client.for(idOf(object)).json({
        method: 'PATCH',
        path: resourcePath(ReconcileFunction, { namespace, name, subresource: 'status' }),
        query: { fieldManager: 'levelhook-gateway' },
        contentType: 'application/json-patch+json',
        body: [
          // Trap: a UID in a merge patch is of no use, since the apiserver takes nothing but the status from a patch of
          // that.
          { op: 'test', path: '/metadata/uid', value: uid },
          { op: 'add', path: '/status', value: status },
        ],
        signal,
      });
    } catch (error) {
      if (await this.#isGone(object, error, signal)) return;
      throw error;
    }
    await this.#event(object, before, status, signal);
  }

  /** No object has this UID any more. A test that fails in a patch is a 422 as a wrong status is. */
  async #isGone(object: PartialReconcileFunction, error: unknown, signal: AbortSignal): Promise<boolean> {
    if (!(error instanceof ApiError) || (error.code !== 404 && error.code !== 422)) return false;
    const { namespace = '', name, uid } = object.metadata;
    return (await liveUid(this.#options.client.for(idOf(object)), { namespace, name }, { signal })) !== uid;
  }

  async #event(
    object: PartialReconcileFunction,
    before: ReconcileFunctionStatus | undefined,
    status: ReconcileFunctionStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const ready = readyOf(status);
    const old = readyOf(before);
    if (!ready || (old?.status === ready.status && old.reason === ready.reason)) return;
    // Every start fills the cache: that is no news. Nor is a key that fails once, and succeeds then.
    if (ready.reason === 'CacheFilling' || ready.reason === KEYS_FAIL) return;
    if (ready.status === 'True' && old?.reason === KEYS_FAIL && ready.reason === RUNNING) return;
    const { client, runtime } = this.#options;
    const { clock, logger } = runtime;
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const at = new Date(clock.wallNow()).toISOString();
    const { apiVersion, kind } = ReconcileFunction;
    try {
      await client.for(idOf(object)).json({
        method: 'POST',
        path: resourcePath(EVENT, { namespace }),
        body: {
          apiVersion: EVENT.apiVersion,
          kind: EVENT.kind,
          metadata: { namespace, name: `${name}.${randomUUID().slice(0, 13)}` },
          eventTime: at.replace('Z', '000Z'),
          type: ready.status === 'True' && ready.reason !== DEAD_LETTERS ? 'Normal' : 'Warning',
          reason: ready.reason,
          note: boundedText(ready.message, 1024),
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
