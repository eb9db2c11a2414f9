import {
  ApiError,
  type Clock,
  controllerOf,
  formatKind,
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  messageOf,
  NewestMap,
  type OwnerReference,
  resource,
  resourcePath,
} from '../../../core/index.ts';
import { controllerIndex, namespaceIndex } from '../../../contract/cache-layout.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import { withCircuit } from '../../controller/endpoint/open-circuit.ts';
import type { KeyStatus } from '../../controller/workqueue/key-status.ts';
import type { View } from '../../informer/cache/view.ts';
import type { ReadingTime } from '../cache-api/reading-time.ts';
import type { ControllerLook, ObjectTree, ObjectVisitor, Shown, ShownEvent, TreeObject } from '../dashboard/data.ts';
import { MOST_MESSAGE } from '../dashboard/components/surroundings.ts';
import { healthOf } from '../dashboard/health.ts';
import { quoted } from '../dashboard/shell.ts';

/** Owners above an object, and levels of children below it. */
const MOST_OWNERS = 5;
const MOST_LEVELS = 2;
/** Children on one page, of all levels. */
const MOST_CHILDREN = 30;
/** Children whose own children are looked for, because each takes a question to each view. */
const MOST_PARENTS = 10;
/** Pages of 2,000 keys that the search for one owner's children looks at in a view. */
const MOST_PAGES = 5;
/** Milliseconds of the thread for the question whether a view has children of an owner, and for each page. */
const ASK_MS = 0.1;
const MOST_CONTROLLERS = 20;
const MOST_EVENTS = 10;
const EVENTS_FRESH_MS = 10_000;
const FAILURE_FRESH_MS = 2000;
/** Objects whose Events are remembered, all of them visited within ten seconds. */
const MOST_KNOWN = 100;
const EVENTS_ANSWER = { limit: 100, bytes: 1024 * 1024, ms: 3000 };

export interface TreeOptions {
  /** All views of the cache. */
  readonly views: readonly View[];
  readonly controllers: ReadonlyMap<string, RunningController>;
  /** Why a visitor may not see objects of a view; undefined: the visitor may. */
  readonly hiddenReason: (view: View, key: string) => Promise<string | undefined>;
  /** Of the visitor. */
  readonly time: Pick<ReadingTime, 'pace' | 'tenant'>;
  /** The controller whose page is shown. */
  readonly shownFor: string;
}

interface Room {
  left: number;
  notShown: number;
  isCut: boolean;
}

/** Reads the owners and the children of an object from the cache. Leaves out what the visitor may not read. */
export async function objectTree(object: KubernetesObject, options: TreeOptions): Promise<ObjectTree> {
  const owners: TreeObject[] = [];
  let below = object;
  for (let level = 0; level < MOST_OWNERS; level += 1) {
    const reference = controllerOf(below) ?? below.metadata.ownerReferences?.[0];
    if (!reference) break;
    const { shown, found } = await ownerOf(below, reference, options);
    owners.unshift(shown);
    if (!found) break;
    below = found;
  }
  const room = { left: MOST_CHILDREN, notShown: 0, isCut: false };
  const children = await childrenOf(object, MOST_LEVELS, room, options);
  return { owners, children, notShown: room.notShown, isCut: room.isCut };
}

/** @returns how it is shown, and the object itself if the cache has it and the visitor may see it. */
async function ownerOf(
  { metadata }: KubernetesObject,
  { apiVersion, kind, name, uid }: OwnerReference,
  options: TreeOptions,
): Promise<{ readonly shown: TreeObject; readonly found: KubernetesObject | undefined }> {
  const named = formatKind({ apiVersion, kind });
  const view = options.views.find(
    (each) => formatKind(each.resource) === named && (!each.resource.namespaced || each.contains(metadata.namespace)),
  );
  const { namespace } = metadata;
  const key = formatObjectKey(view?.resource.namespaced === false || !namespace ? { name } : { namespace, name });
  const plain = { kind: named, key, view: undefined, health: undefined, controllers: [], children: [] };
  if (!view) return { shown: { ...plain, note: 'its kind is not cached' }, found: undefined };
  const hidden = await options.hiddenReason(view, key);
  if (hidden !== undefined) return { shown: { ...plain, note: hidden }, found: undefined };
  const [encoded] = await view.objects.first([key], options.time.tenant);
  const found = encoded && (await options.time.pace(() => encoded.decode()));
  if (!found) return { shown: { ...plain, note: 'the cache does not have it' }, found };
  // An owner that was deleted and made again has the name, and owns nothing of before.
  if (found.metadata.uid !== uid) {
    return { shown: { ...plain, note: 'another object has its name by now' }, found: undefined };
  }
  return { shown: shownObject(view, found, options, []), found };
}

async function childrenOf(
  owner: KubernetesObject,
  levels: number,
  room: Room,
  options: TreeOptions,
): Promise<readonly TreeObject[]> {
  const { hiddenReason, time, views } = options;
  const { namespace, uid } = owner.metadata;
  const entries = [controllerIndex(uid), ...(namespace === undefined ? [] : [namespaceIndex(namespace)])];
  const asked = views.filter(
    (view) => namespace === undefined || (view.resource.namespaced && view.contains(namespace)),
  );
  const all = await Promise.all(asked.map(async (view) => ({ view, ...(await keysOf(view, entries, time)) })));
  const found: { readonly view: View; readonly object: KubernetesObject }[] = [];
  for (const { view, keys, isCut } of all) {
    room.isCut ||= isCut;
    // A cluster-scoped owner may have children in any namespace.
    const at = namespace === undefined ? '' : (keys[0] ?? '');
    if (keys.length === 0 || (await hiddenReason(view, at)) !== undefined) continue;
    const read = keys.slice(0, room.left);
    room.notShown += keys.length - read.length;
    room.left -= read.length;
    for await (const { encoded } of view.objects.eachEncoded(read, new TimeSlice(time.tenant))) {
      const object = encoded && (await time.pace(() => encoded.decode()));
      if (object) found.push({ view, object });
    }
  }
  const shown: TreeObject[] = [];
  for (const [at, { view, object }] of found.entries()) {
    const goesOn = levels > 1 && at < MOST_PARENTS;
    const children = goesOn ? await childrenOf(object, levels - 1, room, options) : [];
    shown.push(shownObject(view, object, options, children));
  }
  return shown;
}

/** The keys of the objects with these index entries, in order; none, and `isCut`, where there are too many to look. */
async function keysOf(
  view: View,
  entries: readonly string[],
  time: TreeOptions['time'],
): Promise<{ readonly keys: readonly string[]; readonly isCut: boolean }> {
  let pages = 0;
  const onPage = (): void => {
    pages += 1;
    if (pages > MOST_PAGES) throw new TooManyKeysError();
  };
  try {
    const keys = await view.indexer.keysWith(entries, { onPage });
    return { keys: keys.toSorted(), isCut: false };
  } catch (error) {
    if (!(error instanceof TooManyKeysError)) throw error;
    return { keys: [], isCut: true };
  } finally {
    await time.pace(() => {}, ASK_MS * (1 + pages));
  }
}

class TooManyKeysError extends Error {}

function shownObject(
  view: View,
  object: KubernetesObject,
  { controllers, shownFor }: TreeOptions,
  children: readonly TreeObject[],
): TreeObject {
  const names = [...controllers.values()].filter((each) => each.reconciledViews.includes(view) && each.selects(object));
  return {
    kind: formatKind(view.resource),
    key: formatObjectKey(keyOf(object)),
    view: view.name,
    // Not the object, which may have megabytes.
    health: healthOf(object),
    note: undefined,
    controllers: names.map(({ name }) => name).toSorted((a, b) => Number(b === shownFor) - Number(a === shownFor)),
    children,
  };
}

/** Lists the controllers that use an object in any role. A controller that reconciles it shows the state of its key. */
export async function controllersOf(
  object: KubernetesObject,
  kind: string,
  { controllers, shownFor }: Pick<TreeOptions, 'controllers' | 'shownFor'>,
): Promise<readonly ControllerLook[]> {
  const looks = [...controllers.values()].flatMap((controller) => {
    const roles = rolesOf(controller, kind).filter((role) => role !== 'reconciles' || controller.selects(object));
    return roles.length === 0 || controller.name === shownFor ? [] : [{ controller, roles }];
  });
  const statusOf = async ({ circuit, queue }: RunningController): Promise<KeyStatus> =>
    withCircuit(await queue.inspector.status(formatObjectKey(keyOf(object))), circuit);
  return Promise.all(
    looks.slice(0, MOST_CONTROLLERS).map(async ({ controller, roles }) => ({
      id: controller.name,
      roles,
      status: roles.includes('reconciles') ? await statusOf(controller) : undefined,
    })),
  );
}

function rolesOf({ description }: RunningController, kind: string): ControllerLook['roles'] {
  const { for: reconciled, owns, watches, reads } = description;
  const has = (all: readonly { readonly apiVersion: string; readonly kind: string }[]): boolean =>
    all.some((each) => formatKind(each) === kind);
  const roles = { reconciles: [reconciled], owns, watches, reads };
  return (Object.keys(roles) as (keyof typeof roles)[]).filter((role) => has(roles[role]));
}

const EVENT = resource('v1', 'Event');

/**
 * The Events of objects, as the apiserver has them: they are not cached. All visitors share an answer for ten seconds,
 * because the apiserver looks at all Events of the namespace for it.
 */
export class EventReader {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #known = new NewestMap<string, { readonly atMs: number; readonly events: Promise<readonly ShownEvent[]> }>(
    MOST_KNOWN,
  );

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** The newest ones first. @throws LoginUnavailableError */
  async of(
    { kind, metadata: { name, namespace = 'default', uid } }: KubernetesObject,
    client: Pick<ApiClient, 'json'>,
    visitor: ObjectVisitor,
  ): Promise<Shown<{ readonly events: readonly ShownEvent[] }>> {
    const refusal = await visitor.readRefusal({ resource: EVENT, namespace });
    if (refusal !== undefined) return { kind: 'hidden', reason: refusal };
    try {
      return { kind: 'shown', events: await this.#read(namespace, uid, client) };
    } catch (error) {
      const isForbidden = error instanceof ApiError && error.code === 403;
      const why = isForbidden ? 'the gateway may not list Events' : messageOf(error);
      const command = `kubectl events -n ${namespace} --for ${quoted(`${kind}/${name}`)}`;
      return { kind: 'hidden', reason: `They could not be read (${why}). Ask the cluster: ${command}` };
    }
  }

  #read(namespace: string, uid: string, client: Pick<ApiClient, 'json'>): Promise<readonly ShownEvent[]> {
    const now = this.#clock.now();
    const known = this.#known.get(uid);
    if (known && now - known.atMs < EVENTS_FRESH_MS) return known.events;
    for (const [each, { atMs }] of this.#known) if (now - atMs >= EVENTS_FRESH_MS) this.#known.delete(each);
    const read = { atMs: now, events: eventsOf(namespace, uid, client) };
    this.#known.set(uid, read);
    read.events.catch(() => {
      // The apiserver pays for a failed read as for any other, so the next one waits two seconds.
      if (this.#known.get(uid) !== read) return;
      this.#known.set(uid, { ...read, atMs: this.#clock.now() - EVENTS_FRESH_MS + FAILURE_FRESH_MS });
    });
    return read.events;
  }
}

async function eventsOf(
  namespace: string,
  uid: string,
  client: Pick<ApiClient, 'json'>,
): Promise<readonly ShownEvent[]> {
  const { items } = await client.json<{ items: readonly EventFields[] }>({
    path: resourcePath(EVENT, { namespace }),
    query: { fieldSelector: `involvedObject.uid=${uid}`, limit: String(EVENTS_ANSWER.limit) },
    maxBytes: EVENTS_ANSWER.bytes,
    signal: AbortSignal.timeout(EVENTS_ANSWER.ms),
  });
  const events = items.map(eventOf).toSorted((a, b) => (b.at ?? '').localeCompare(a.at ?? ''));
  return events.slice(0, MOST_EVENTS);
}

/** The fields of an Event of v1 that are shown. */
interface EventFields {
  readonly type?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly count?: number;
  readonly series?: { readonly count?: number; readonly lastObservedTime?: string } | null;
  readonly lastTimestamp?: string | null;
  readonly eventTime?: string | null;
  readonly source?: { readonly component?: string };
  readonly reportingComponent?: string;
}

function eventOf(event: EventFields): ShownEvent {
  const { type = '', reason = '', message = '', series, lastTimestamp, eventTime, source } = event;
  return {
    isWarning: type === 'Warning',
    reason: beginningOf(reason),
    message: beginningOf(message),
    count: series?.count ?? event.count ?? 1,
    at: series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? undefined,
    from: beginningOf(source?.component || event.reportingComponent || '') || undefined,
  };
}

/**
 * As much of a text as is shown, and one more character, by which the page sees that there is more. An Event of the old
 * API may have a megabyte of it. A copy, because a slice keeps the whole text in memory.
 */
function beginningOf(text: string): string {
  return text.length > MOST_MESSAGE ? Buffer.from(text.slice(0, MOST_MESSAGE + 1)).toString() : text;
}
