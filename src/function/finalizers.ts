import { ApiError, type KubernetesObject, keyOf, type Resource } from '../core/index.ts';
import type { ApiWriter } from './api-writer.ts';

/**
 * Adds a finalizer to an object, unless it is there already, and returns the updated object. Until the finalizer is
 * removed, a delete only marks the object, so that the controller can clean up first. Call this before you create
 * anything that needs cleanup. A concurrent change is not lost: it causes a conflict, and the finalizer is then added
 * to the live object.
 *
 * @throws ApiError 404 when the object is gone or another one has its name, 422 when it is being deleted
 */
export async function ensureFinalizer<T extends KubernetesObject>(
  api: ApiWriter,
  resource: Resource<T>,
  object: T,
  finalizer: string,
): Promise<T> {
  const changed = await change(api, resource, object, (finalizers) =>
    finalizers.includes(finalizer) ? finalizers : [...finalizers, finalizer],
  );
  if (changed) return changed;
  const what = `${resource.kind} ${object.metadata.name}`;
  throw new ApiError({
    code: 404,
    reason: 'NotFound',
    message: `${what} is gone, or another one of its name is there`,
  });
}

/**
 * Removes a finalizer, and returns the updated object: undefined when the object is gone, or another one has its name.
 * An object that is being deleted disappears with its last finalizer. Call this after the cleanup. It sends no request
 * when the finalizer is not there.
 */
export async function removeFinalizer<T extends KubernetesObject>(
  api: ApiWriter,
  resource: Resource<T>,
  object: T,
  finalizer: string,
): Promise<T | undefined> {
  return change(api, resource, object, (finalizers) =>
    finalizers.includes(finalizer) ? finalizers.filter((each) => each !== finalizer) : finalizers,
  );
}

/** Conflicts in a row before the error reaches the caller: client-go's `retry.DefaultRetry`. */
const ATTEMPTS = 5;

async function change<T extends KubernetesObject>(
  api: ApiWriter,
  resource: Resource<T>,
  object: T,
  next: (finalizers: readonly string[]) => readonly string[],
): Promise<T | undefined> {
  let current: T | undefined = object;
  for (let attempt = 1; current?.metadata.uid === object.metadata.uid; attempt += 1) {
    const before: readonly string[] = current.metadata.finalizers ?? [];
    const finalizers = next(before);
    if (finalizers === before) return current;
    // A merge patch replaces the whole list, so the version guards against a concurrent change of it.
    const { resourceVersion } = current.metadata;
    try {
      return await api.patch(resource, keyOf(current), {
        type: 'merge',
        body: { metadata: { resourceVersion, finalizers } },
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === 404) return undefined;
      if (error.code !== 409 || attempt === ATTEMPTS) throw error;
    }
    current = await api.get(resource, keyOf(object));
  }
  return undefined;
}
