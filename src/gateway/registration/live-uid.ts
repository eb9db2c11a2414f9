import { orUndefined, resourcePath } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { ReconcileFunction } from './reconcile-function.ts';

export interface LiveUidOptions {
  /** A function that it does not select counts as none. Default: all are selected. */
  readonly labelSelector?: string | undefined;
  readonly signal?: AbortSignal;
}

/**
 * The UID of a ReconcileFunction as the apiserver has it now; undefined when there is none. For what a watch that lags
 * behind must not decide.
 * @throws ApiError
 */
export async function liveUid(
  client: Pick<ApiClient, 'json'>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { labelSelector, signal }: LiveUidOptions = {},
): Promise<string | undefined> {
  const path = resourcePath(ReconcileFunction, { namespace });
  const query = { fieldSelector: `metadata.name=${name}`, ...(labelSelector === undefined ? {} : { labelSelector }) };
  const listed = client.json<{ readonly items: readonly ReconcileFunction[] }>({ path, query, signal });
  return (await orUndefined(listed))?.items[0]?.metadata.uid;
}
