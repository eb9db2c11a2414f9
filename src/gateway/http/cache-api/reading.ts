import { type Clock, compareResourceVersions, ownValue, type ResourceVersion } from '../../../core/index.ts';
import { cachedKey, cachedName } from '../../../contract/node/cached-name.ts';
import {
  CONTROLLED_BY,
  POSITION_HEADER,
  UNCHANGED,
  UNCHANGED_HEADER,
  UNCHANGED_ITEM,
} from '../../../contract/cache-query.ts';
import type { CacheScope } from '../../../contract/cache-scope.ts';
import type { Selection } from '../../../contract/index.ts';
import { clusterScoped } from '../../../contract/selection.ts';
import { ObjectKeptOutError } from '../../../contract/node/codec.ts';
import {
  type Found,
  LostWritesError,
  type ReadableState,
  type ViewReader,
} from '../../../contract/node/view-reader.ts';
import type { Form } from './accept.ts';
import { type HeldAnswer, streamOf } from './answer-room.ts';
import { type AnswerForm, answerForm, itemsOf, joined, type ListMetadata, type Piece } from './answer-form.ts';
import type { Catalog, ReadableView, ServedKind } from './catalog.ts';
import { encodeContinue } from './continue-token.ts';
import {
  badRequest,
  beingChecked,
  expired,
  HEADERS,
  keptOut,
  notFound,
  statusResponse,
  tooLarge,
  tooLargeResourceVersion,
  tooManyRequests,
} from './kubernetes-status.ts';
import { type ListRequest, listRequest, readVersion } from './list-options.ts';
import { ANSWER_BYTES } from '../../informer/cache/view-objects.ts';
import type { ReadingTime } from './reading-time.ts';
import type { ResourceRequest } from './request-info.ts';
import type { VersionWaits } from './version-waits.ts';

export interface ReadingOptions {
  /** Objects in one answer without a limit; more are refused, since a part would be taken for all. */
  readonly listLimit: number;
  readonly clock: Clock;
  /** The memory of the answer. */
  readonly held: HeldAnswer;
  /** The thread's time for it. */
  readonly time: ReadingTime;
  readonly versionWaits: VersionWaits;
}

/** A request for a kind that may be read. */
export interface ReadRequest {
  readonly kind: ServedKind;
  readonly request: ResourceRequest;
  readonly query: URLSearchParams;
  readonly form: Form;
  readonly catalog: Catalog;
  /** What the token may read. */
  readonly scope: CacheScope;
  /** The least positions of the kind's views, by namespace. */
  readonly positions: Readonly<Record<string, number>> | undefined;
}

/** A view, and its state before anything was read. */
interface Reading {
  readonly reader: ViewReader;
  readonly state: ReadableState;
}

/** How long a version is waited for: the apiserver's `blockTimeout` (storage/cacher/watch_cache.go). */
const VERSION_WAIT_MS = 3000;
/** Time of this thread and of Redis for each key of an index, whatever becomes of the list. */
const INDEX_KEY_MS = 0.001;
/** Objects of a list and their bytes that are read before it is sent: a longer list is sent as it is read. */
const WHOLE = { objects: 500, bytes: 4 * 1024 * 1024 };

/** @throws StatusError */
export async function readObject(asked: ReadRequest, options: ReadingOptions): Promise<Response> {
  const { kind, request, query } = asked;
  const name = request.name ?? '';
  const key = kind.resource.namespaced ? cachedKey({ namespace: request.namespace ?? '', name }) : cachedName(name);
  const view = kind.views.find((each) => each.view.contains(request.namespace) || !kind.resource.namespaced);
  const notOlderThan = readVersion(query.get('resourceVersion') ?? '');
  if (!view) throw notFound(request, name);
  if (notOlderThan !== undefined) await readings([view], {}, notOlderThan, asked, options);
  const { pieces, position } = await options.time.read(async () =>
    readOne(view, key, await formOf(asked, options), asked, options),
  );
  if (!pieces) {
    const missing = statusResponse(notFound(request, name).status);
    missing.headers.set(POSITION_HEADER, String(position));
    return missing;
  }
  const field = query.get(UNCHANGED);
  const item = query.get(UNCHANGED_ITEM) ?? undefined;
  const { observations } = view.view;
  const seconds =
    field === null ? undefined : await observations.secondsUnchanged(key, field, options.clock.now(), item);
  const unchanged = seconds === undefined ? {} : { [UNCHANGED_HEADER]: String(seconds) };
  const whole = joined(pieces);
  await options.time.paceBytes(whole.length);
  return body(options.held.body(whole), { [POSITION_HEADER]: String(position), ...unchanged });
}

async function readOne(
  readable: ReadableView,
  key: string,
  form: AnswerForm,
  asked: ReadRequest,
  { time }: ReadingOptions,
): Promise<{ pieces: readonly Piece[] | undefined; position: number }> {
  const reader = readable.view.reader(time.tenant);
  const { position, stored } = await reader.get(key);
  checkPosition(readable, position, asked);
  try {
    const object = await time.pace(() => reader.found(key, stored));
    return { pieces: object && (await form.one(object)), position };
  } catch (error) {
    if (error instanceof ObjectKeptOutError) throw keptOut(error.message);
    throw error;
  }
}

/**
 * @throws StatusError 429 while the view is being filled, 503 when it is older than the state that the token's runs may
 *   have seen
 */
function checkPosition(
  { view }: ReadableView,
  position: number | undefined,
  { positions }: ReadRequest,
): asserts position is number {
  if (position === undefined) throw initializing();
  if (position < (ownValue(positions, view.location.namespace ?? '') ?? 0)) throw beingChecked();
}

/** @throws StatusError */
export async function readList(asked: ReadRequest, options: ReadingOptions): Promise<Response> {
  const { kind, query } = asked;
  const { namespace } = asked.request;
  const { time } = options;
  const customFields = query.get('fieldSelector') ? await asked.catalog.selectableFields(kind) : [];
  time.check();
  const request = await time.pace(() => listRequest(kind.resource, query, namespace, customFields));
  const wanted = { ...request, selection: withOwnerKinds(request.selection, asked) };
  const views = kind.views.filter(({ view }) => namespace === undefined || view.contains(namespace));
  // Not in place, because the wait may be long, and without the keys of an index, which would stay in memory.
  if (wanted.notOlderThan !== undefined) await readings(views, {}, wanted.notOlderThan, asked, options);
  try {
    return await time.read(() => listOf(views, wanted, asked, options));
  } catch (error) {
    throw error instanceof LostWritesError ? beingChecked() : error;
  }
}

async function listOf(
  views: readonly ReadableView[],
  wanted: ListRequest,
  asked: ReadRequest,
  options: ReadingOptions,
): Promise<Response> {
  const form = await formOf(asked, options);
  const found = await readings(views, wanted.selection, wanted.notOlderThan, asked, options);
  const incarnations = found.map(({ state }) => state.incarnation).join(' ');
  if (wanted.continue && wanted.continue.incarnations !== incarnations) {
    throw expired(
      'The provided continue parameter is too old: the cache has been filled anew. Start a new list without the continue parameter.',
    );
  }
  // Every page reports the first page's version; objects on later pages are at least that new.
  const version = wanted.continue?.version ?? oldest(found.map(({ state }) => state.version));
  const list: List = {
    readings: found,
    wanted,
    version,
    incarnations,
    form,
    held: options.held,
    time: options.time,
    keptOut: [],
    positions: found.map(({ state }) => state.position),
  };
  const { limit } = wanted;
  return limit === undefined ? all(list, options) : page(list, limit, options);
}

/**
 * A namespaced owner's UID without its namespace would select objects of other namespaces, whose authors may have
 * copied it. So `/UID` names an owner of a cluster-scoped kind that the token reads: a function that knows the UID of
 * an owner has read the owner.
 * @throws StatusError 400 when the token reads no such kind
 */
function withOwnerKinds(selection: Selection, { catalog, scope }: ReadRequest): Selection {
  const { controlledBy } = selection;
  if (!controlledBy || controlledBy.metadata.namespace) return selection;
  const ownerKinds = clusterScoped(catalog.readable(scope).map(({ resource }) => resource));
  if (ownerKinds.length > 0) return { ...selection, ownerKinds };
  throw badRequest(
    `${CONTROLLED_BY} names a cluster-scoped owner, and all kinds that this token reads are namespaced: ask with NAMESPACE/UID of the owner, or declare the kind of the cluster-scoped owner in reads`,
  );
}

interface List {
  readonly readings: readonly Reading[];
  readonly wanted: ListRequest;
  readonly version: ResourceVersion;
  readonly incarnations: string;
  readonly form: AnswerForm;
  readonly held: HeldAnswer;
  readonly time: ReadingTime;
  /** Objects of the list that are kept out of the cache, as far as it has been read. */
  readonly keptOut: { readonly key: string; readonly reason: string }[];
  /** By view, in the same order: the position at which its objects were read last. */
  readonly positions: number[];
}

async function page(list: List, asked: number, options: ReadingOptions): Promise<Response> {
  const limit = Math.min(asked, options.listLimit);
  const { selection } = list.wanted;
  // One more than asked for tells whether the list goes on. A page of large objects has fewer of them.
  const { items, rest } = await begin(select(list, limit + 1), limit);
  await rest?.return();
  const goesOn = rest !== undefined || items.length > limit;
  items.length = Math.min(items.length, limit);
  const last = goesOn ? items.at(-1)?.key : undefined;
  // The next page reports the objects kept out behind the last key.
  const left = list.keptOut.filter(({ key }) => last === undefined || key <= last);
  const metadata = { resourceVersion: list.version, ...(await more(list, selection, last)) };
  return whole({ ...list, keptOut: left }, items, metadata);
}

async function more(list: List, selection: Selection, last: string | undefined): Promise<Partial<ListMetadata>> {
  if (last === undefined) return {};
  const { version, incarnations } = list;
  const next = { continue: encodeContinue({ version, incarnations, after: last }) };
  // As the apiserver: with a selector the rest is not known.
  if (Object.keys(selection).some((condition) => condition !== 'namespace')) return next;
  const counts = await Promise.all(list.readings.map(({ reader, state }) => reader.count(selection, state, last)));
  return { ...next, remainingItemCount: counts.reduce((sum, count) => sum + count, 0) };
}

async function all(list: List, { listLimit }: ReadingOptions): Promise<Response> {
  const { selection, continue: from } = list.wanted;
  const counts = await Promise.all(
    list.readings.map(({ reader, state }) => reader.count(selection, state, from?.after ?? '')),
  );
  const count = counts.reduce((sum, each) => sum + each, 0);
  if (count > listLimit) {
    throw tooLarge(`the list may have ${count} objects and this server sends ${listLimit} at most: ask with limit=500`);
  }
  const metadata = { resourceVersion: list.version };
  const { items, rest } = await begin(select(list), WHOLE.objects);
  return rest ? body(stream(list, metadata, { items, rest })) : whole(list, items, metadata);
}

/** A list whose first objects have been read. `rest` reads the others, if there are any. */
interface Begun {
  readonly items: Found[];
  readonly rest: AsyncGenerator<Found[], void> | undefined;
}

/** Reads until there are more objects than these, or more bytes than `WHOLE`. */
async function begin(batches: AsyncGenerator<Found[], void>, objects: number): Promise<Begun> {
  const items: Found[] = [];
  let bytes = 0;
  while (items.length <= objects && bytes < WHOLE.bytes) {
    const { done, value } = await batches.next();
    if (done) return { items, rest: undefined };
    items.push(...value);
    bytes += bytesOf(value);
  }
  return { items, rest: batches };
}

function bytesOf(batch: readonly Found[]): number {
  return batch.reduce((sum, { json }) => sum + json.length, 0);
}

/** As it is read, a batch at a time, when the client takes it. A failure in the middle cuts the connection. */
function stream(list: List, metadata: ListMetadata, begun: Required<Begun>): ReadableStream<Uint8Array> {
  const pieces = parts(list, metadata, begun);
  return streamOf({
    next: async () => {
      const { done, value } = await pieces.next();
      return done ? undefined : joined(value);
    },
    end: () => pieces.return(),
  });
}

async function* parts(
  list: List,
  metadata: ListMetadata,
  { items, rest }: Required<Begun>,
): AsyncGenerator<Piece[], void, undefined> {
  const { form, held } = list;
  try {
    yield [form.head(metadata), ...(await itemsOf(form, items))];
    let separator = items.length > 0 ? ',' : '';
    held.giveBack();
    for await (const batch of rest ?? []) {
      if (batch.length === 0) continue;
      yield [separator, ...(await itemsOf(form, batch))];
      separator = ',';
      held.giveBack();
    }
    yield [tailOf(list)];
  } finally {
    held.giveBack();
  }
}

/**
 * A list that leaves out objects names them behind its items. Clients of Kubernetes pass over a field that they do not
 * know, and kubectl shows the Warning.
 */
function tailOf({ form, keptOut: left }: List): string {
  return left.length === 0 ? form.tail : `],"keptOut":${JSON.stringify(left)}${form.tail.slice(1)}`;
}

/** The batches of a list, whose bytes are held from here on. */
async function* select(list: List, first?: number): AsyncGenerator<Found[], void> {
  const { wanted, form, time } = list;
  const after = wanted.continue?.after ?? '';
  const onKeptOut = ({ key, reason }: ObjectKeptOutError): void => void list.keptOut.push({ key, reason });
  const options = { after, verbatim: form.verbatim, onKeptOut, ...(first === undefined ? {} : { first }) };
  for (const [at, { reader, state }] of list.readings.entries()) {
    const onPosition = (position: number): void => void (list.positions[at] = position);
    for await (const batch of reader.select(wanted.selection, {
      state,
      commandBytes: ANSWER_BYTES,
      pace: time.pace,
      onPosition,
      ...options,
    })) {
      const bytes = bytesOf(batch);
      list.held.take(bytes);
      await time.paceBytes(bytes);
      yield batch;
    }
  }
}

async function whole(list: List, items: readonly Found[], metadata: ListMetadata): Promise<Response> {
  const { form, keptOut: left } = list;
  const pieces = [form.head(metadata), ...(await itemsOf(form, items)), tailOf(list)];
  const content = list.held.body(joined(pieces));
  // Of several views there is no single position.
  const position = list.positions.length === 1 ? { [POSITION_HEADER]: String(list.positions[0]) } : {};
  if (left.length === 0) return body(content, position);
  return body(content, {
    ...position,
    warning: `299 - "${left.length} objects of this list are kept out of the cache"`,
  });
}

/** The views, once each is complete and at least as new as asked for. @throws StatusError 429, 504 */
async function readings(
  views: readonly ReadableView[],
  selection: Selection,
  notOlderThan: ResourceVersion | undefined,
  asked: ReadRequest,
  { clock, time, versionWaits }: ReadingOptions,
): Promise<Reading[]> {
  const until = clock.now() + VERSION_WAIT_MS;
  return Promise.all(
    views.map(async (readable) => {
      const reader = readable.view.reader(time.tenant);
      for (;;) {
        const state = await reader.state(selection);
        if (!state) throw initializing();
        checkPosition(readable, state.position, asked);
        if (state.keys) await time.pace(() => {}, state.keys.length * INDEX_KEY_MS);
        if (notOlderThan === undefined || compareResourceVersions(state.version, notOlderThan) >= 0) {
          return { reader, state };
        }
        if (clock.now() >= until) throw tooLargeResourceVersion(notOlderThan, state.version);
        await versionWaits.wait(readable, notOlderThan, until);
      }
    }),
  );
}

/** The apiserver's words for a watch cache that is not filled. Clients wait and ask again. */
const initializing = (): Error => tooManyRequests('storage is (re)initializing');

function oldest(versions: readonly ResourceVersion[]): ResourceVersion {
  // Nothing of this namespace is cached, and the apiserver's "0" is below every version too.
  return versions.toSorted(compareResourceVersions)[0] ?? '0';
}

function formOf(asked: ReadRequest, { clock, time, held }: ReadingOptions): Promise<AnswerForm> {
  const { form, kind, query, catalog } = asked;
  const includeObject = query.get('includeObject') ?? '';
  return answerForm(form, kind, { catalog, includeObject, nowMs: clock.wallNow(), pace: time.pace, held });
}

function body(
  content: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>> = {},
): Response {
  // Otherwise the server reads ahead of the client, to learn the length of a short stream.
  const chunked = content instanceof ReadableStream ? { 'transfer-encoding': 'chunked' } : {};
  return new Response(content, { headers: { ...HEADERS, ...headers, ...chunked, 'content-type': 'application/json' } });
}
