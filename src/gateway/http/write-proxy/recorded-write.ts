import {
  ApiError,
  groupOf,
  isRemovedByUpdate,
  isUncertain,
  type KubernetesObject,
  parseJson,
  type Resource,
  statusFrom,
} from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import type { ResourceRequest } from '../cache-api/request-info.ts';
import type { WriteEntry, WriteTarget } from '../../controller/dispatch/recorded-writes.ts';
import type { RequestOptions } from './request-options.ts';

/** A write that the apiserver has answered. */
export interface AnsweredWrite {
  readonly request: ResourceRequest;
  readonly target: WriteTarget;
  readonly options: RequestOptions;
  readonly status: number;
  /** The body of the answer; empty if it is too long to be held. */
  readonly text: string;
}

/** The bounds of one entry, which Redis keeps until the run's deadline: objects, and bytes of their names. */
const MOST_OBJECTS = 100;
const MOST_BYTES = 16_384;

/** The fields that are read from an answer. */
interface Answer extends Partial<Omit<KubernetesObject, 'metadata'>> {
  readonly metadata?: Partial<KubernetesObject['metadata']>;
  readonly details?: { readonly uid?: string };
  readonly items?: readonly Pick<KubernetesObject, 'metadata'>[] | null;
}

/** Resources whose writes change objects that clients read as another resource, as `group/plural`. */
const READ_AS: ReadonlyMap<string, string> = new Map([
  // The pod gets its node. The answer is a Status, which has no version of the pod.
  ['/bindings', '/pods'],
  // The apiserver serves each Event in both groups.
  ['/events', 'events.k8s.io/events'],
  ['events.k8s.io/events', '/events'],
]);

/**
 * The target of a write. A kind that the controller reads is named as the controller names it, whatever the version of
 * the write, because its cache is found by that name. That includes the Pod of a Binding, and an Event that is written
 * in the group in which the controller does not read Events. A controller that reads Events in both groups sees its
 * write in the group of the write.
 */
export function targetOf(request: ResourceRequest, known: readonly Resource[]): WriteTarget {
  const { group, version, resource, namespace } = request;
  const named = (name: string | undefined): Resource | undefined =>
    known.find((each) => `${groupOf(each)}/${each.plural}` === name);
  const name = `${group}/${resource}`;
  const found = named(name) ?? named(READ_AS.get(name));
  // No run waits for the cache of another kind: the plural is enough for people.
  const apiVersion = found?.apiVersion ?? (group ? `${group}/${version}` : version);
  return { apiVersion, kind: found?.kind ?? resource, ...(namespace === undefined ? {} : { namespace }) };
}

/**
 * What goes on record for an answer; undefined when nothing was written. A request that mentions a dry run is on record
 * by what the server says of it, too: the version that an object has in either case, and of a delete that there may
 * have been one. Of a write of very many objects only the target is on record.
 */
export function recordedWrite(write: AnsweredWrite): WriteEntry | undefined {
  const { request, target, status, text } = write;
  if (status >= 200 && status < 300) {
    const done = writesOf(write);
    if (done?.length === 0) return undefined;
    return done && isShort(done) ? { done } : { unclear: target };
  }
  return mayBeDone(request, new ApiError(statusFrom(text, status))) ? { open: target } : undefined;
}

function isShort(done: readonly Write[]): boolean {
  return done.length <= MOST_OBJECTS && Buffer.byteLength(JSON.stringify(done)) <= MOST_BYTES;
}

function mayBeDone({ verb, subresource }: ResourceRequest, error: ApiError): boolean {
  // One object's refusal comes with the others' deletes: only these were refused before the first.
  if (verb === 'deletecollection') return ![401, 404, 405, 429].includes(error.code) && !isUnauthorized(error);
  // A 500 that says no more than that the pod is wrongly set up.
  if (subresource === 'eviction' && error.message.includes('more than one PodDisruptionBudget')) return false;
  return isUncertain(error);
}

/** Whether the apiserver's authorizer has refused the whole request. Admission answers 403 for one object, too. */
function isUnauthorized({ code, message }: ApiError): boolean {
  return code === 403 && /^\S+ is forbidden: User "[^"]*" cannot deletecollection /.test(message);
}

/** Undefined when the answer leaves it open; empty when the answer says that nothing was stored. */
function writesOf({ request, target, options, text }: AnsweredWrite): Write[] | undefined {
  const answer: Answer | undefined = parsed(text);
  if (!answer) return undefined;
  const { verb, subresource, name = '' } = request;
  const of = (metadata: Answer['metadata']) => ({
    apiVersion: target.apiVersion,
    kind: target.kind,
    ...(metadata?.namespace || target.namespace ? { namespace: metadata?.namespace || target.namespace } : {}),
    name: metadata?.name ?? name,
  });
  const deleted = (metadata: Answer['metadata'], uid: string | undefined, gone?: true): Write[] | undefined =>
    uid === undefined || options.mentionsDryRun
      ? undefined
      : [{ ...of(metadata), uid, deleted: true, ...(gone ? { gone } : {}) }];
  if (subresource === 'eviction') {
    // The answer does not name the deleted object.
    return deleted({ name }, options.uid);
  }
  if (verb === 'deletecollection') {
    const writes = answer.items?.map(({ metadata }) => deleted(metadata, metadata.uid));
    return writes?.some((each) => each === undefined) ? undefined : writes?.flatMap((each) => each ?? []);
  }
  const { metadata } = answer;
  if (verb === 'delete') {
    if (answer.kind === 'Status') return deleted({ name }, answer.details?.uid, true);
    return deleted(metadata, metadata?.uid);
  }
  // Trap: when an update lets a delayed delete finish, the answer carries the version of before the update.
  if (verb !== 'create' && metadata && isRemovedByUpdate({ ...answer, metadata })) {
    return deleted(metadata, metadata.uid, true);
  }
  const { uid, resourceVersion } = metadata ?? {};
  if (uid === undefined) return undefined;
  // The server gives a version to each object that it stores.
  if (!resourceVersion) return options.mentionsDryRun ? [] : undefined;
  return [{ ...of(metadata), uid, resourceVersion }];
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = parseJson(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
