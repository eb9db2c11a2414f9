import {
  ApiError,
  type ApiWriter,
  cel,
  type Context,
  controller,
  messageOf,
  RetryAfterError,
} from 'levelhook/function';
import { nextConditions } from './conditions.ts';
import { type Content, deleteContent, errorsOf, isEmpty } from './content.ts';
import { isFinalized, Namespace, withoutFinalizer } from './namespace.ts';

/**
 * The time between the deletion of a Namespace and the first deletion of its content: other apiservers may not have
 * seen the deletion yet and still create objects.
 */
const DELAY_SECONDS = 5;
/** A failed deletion is retried after this time at the latest, since mostly another component causes the failure. */
const MAX_RETRY_SECONDS = 60;

/** The Namespace begins to be deleted, or finalizers of its spec other than ours were removed. */
const becomesTerminating = cel(
  'has(object.metadata.deletionTimestamp) && (oldObject == null || !has(oldObject.metadata.deletionTimestamp) || ' +
    'has(oldObject.spec.finalizers) != has(object.spec.finalizers) || ' +
    '(has(object.spec.finalizers) && size(oldObject.spec.finalizers) != size(object.spec.finalizers)))',
);

/** kube-controller-manager looks again this often, too, because objects may end long before their grace periods do. */
const LONGEST_WAIT_SECONDS = 300;

/** Deletes everything in a Namespace that is being deleted, and then lets the Namespace go. */
export const namespace = controller({
  name: 'namespace',
  for: { resource: Namespace, predicate: becomesTerminating },
  concurrency: 10,
  timeoutSeconds: 60,
  // Each event waits, and later events do not prolong the wait.
  queue: { debounce: { seconds: DELAY_SECONDS, maxSeconds: DELAY_SECONDS } },
}).reconcile(async ({ name, attempt }, context) => {
  const { cache, api } = context;
  const known = await cache.get(Namespace, { name });
  const deletedAt = known?.metadata.deletionTimestamp;
  if (known === undefined || deletedAt === undefined) return;
  const deletedAtMs = Date.parse(deletedAt);
  // Keys that are queued at a start do not wait.
  const waitMs = deletedAtMs + DELAY_SECONDS * 1000 - Date.now();
  // If it is longer than the delay, this clock is behind the apiserver's, and the queue has already waited.
  if (waitMs > 0 && waitMs <= DELAY_SECONDS * 1000) return { requeueAfterSeconds: waitMs / 1000 };

  // A live read, because the cache may be older.
  const found = await unlessReplaced(known, api);
  if (!found || isFinalized(found)) return;
  const content = await deleteContent(name, deletedAtMs, api);
  const reported = await report(found, content, context);
  const errors = errorsOf(content);
  if (errors.length > 0) throw failure(errors, attempt);
  if (isEmpty(content)) return finalize(reported, api);
  const estimateSeconds = Math.max(...content.leftovers.map((each) => each.estimateSeconds));
  // Each update of the Namespace queues its key again in kube-controller-manager, that of the conditions included.
  const mostSeconds = reported === found ? LONGEST_WAIT_SECONDS : DELAY_SECONDS;
  return { requeueAfterSeconds: Math.min(Math.floor(estimateSeconds / 2) + 1, mostSeconds) };
});

/**
 * The Namespace from the apiserver. Undefined when it is not being deleted, or when another one has its name, whose
 * content must not be deleted.
 */
async function unlessReplaced({ metadata: { name, uid } }: Namespace, api: ApiWriter): Promise<Namespace | undefined> {
  const found = await api.get(Namespace, { name });
  return found?.metadata.uid === uid && found.metadata.deletionTimestamp !== undefined ? found : undefined;
}

/**
 * Writes phase and conditions if they are new. A failed write delays nothing. A patch cannot conflict with other
 * changes of the Namespace, and the UID in it makes it fail for another Namespace of that name.
 */
async function report(found: Namespace, content: Content, { api, log }: Context): Promise<Namespace> {
  const before = found.status?.conditions ?? [];
  const conditions = nextConditions(before, content, Date.now());
  const phase = 'Terminating';
  if (conditions === before && found.status?.phase === phase) return found;
  const { name, uid } = found.metadata;
  const body = { metadata: { uid }, status: { phase, conditions } };
  try {
    return await api.patch(Namespace, { name }, { type: 'strategic', body }, 'status');
  } catch (error) {
    log.warn({ error: messageOf(error) }, 'the conditions could not be written');
    return found;
  }
}

/** Removes our finalizer: the Namespace disappears, unless it has others. When it is gone, nothing is left to do. */
async function finalize(found: Namespace, api: ApiWriter): Promise<void> {
  for (let latest: Namespace | undefined = found; latest; latest = await unlessReplaced(found, api)) {
    const free = withoutFinalizer(latest);
    if (!free) return;
    try {
      await api.replace(Namespace, free, 'finalize');
      return;
    } catch (error) {
      if (!(error instanceof ApiError && [404, 409].includes(error.code))) throw error;
    }
  }
}

/** Bounds the wait, because the backoff of the queue grows to 1000 s. */
function failure(errors: readonly string[], attempt: number): Error {
  const message = errors.join(', ');
  return 0.005 * 2 ** (attempt - 1) > MAX_RETRY_SECONDS
    ? new RetryAfterError(message, MAX_RETRY_SECONDS)
    : new Error(message);
}
