import {
  ApiError,
  type Clock,
  decodeObjectKey,
  formatKind,
  fulfils,
  isNamespace,
  type KubernetesObject,
  messageOf,
  namespaceOfKey,
  parseLabelSelector,
  parseObjectKey,
  resourcePath,
} from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { type Informer, MOST_AT_REST_MS } from '../../informer/cache/informer.ts';
import { ANSWER_BYTES } from '../../informer/cache/view-objects.ts';
import type { View } from '../../informer/cache/view.ts';
import { SECRET, settingsFor, transformOf } from '../../informer/cache/view-settings.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import { notesOf } from '../../controller/running/controller-state.ts';
import { withCircuit } from '../../controller/endpoint/open-circuit.ts';
import type {
  ControllerAccess,
  ControllerSummary,
  DashboardData,
  FunctionSummary,
  GatewaySummary,
  AnswerSummary,
  ChangeReason,
  ObjectChange,
  ObjectPage,
  ObjectSelection,
  ObjectStates,
  ObjectVisitor,
  Shown,
  Surroundings,
  ViewAccess,
  ViewSummary,
} from '../dashboard/data.ts';
import type { ReadingTime } from '../cache-api/reading-time.ts';
import type { HealthCheck } from '../../process/health.ts';
import type { LeaderElection } from '../../election/leader-election.ts';
import type { Manager } from '../../process/manager.ts';
import { type ReplicaRecord, roleOf } from '../../election/replica-record.ts';
import type { KeyObject } from '../../controller/workqueue/key-status.ts';
import type { ReplayRecords } from '../../controller/workqueue/records/replay-records.ts';
import { keysIn, parseQuery, searchObjects } from './object-search.ts';
import { objectChange } from './object-change.ts';
import { controllersOf, EventReader, objectTree } from './object-tree.ts';
import { recent } from './recent.ts';
import { queuesOf } from './scrape.ts';
import type { Sample } from '../../controller/workqueue/work-queue.ts';

export interface GatewayDashboardOptions {
  /** Undefined while the gateway is starting. */
  readonly parts: () => DashboardParts | undefined;
  readonly checks: ReadonlyMap<string, HealthCheck>;
  readonly unavailable: DashboardData['unavailable'];
  readonly clock: Pick<Clock, 'now' | 'wallNow'>;
  readonly times: DashboardData['times'];
  readonly traceUrl: DashboardData['traceUrl'];
}

/** The parts of a gateway that the dashboard shows. */
export interface DashboardParts {
  readonly manager: Manager;
  readonly client: ApiClient;
  readonly election: Pick<LeaderElection, 'identity' | 'leader' | 'isLeading' | 'warning'> | undefined;
  readonly replica: Pick<ReplicaRecord, 'all'>;
  readonly replays: ReplayRecords;
}

/** Objects whose labels one page looks at, at most. */
const MOST_LOOKED_AT = 2000;
/** How long a page waits for an object of the server. */
const SERVER_MS = 3000;
/** All visitors share samples that are younger. */
const SAMPLES_FRESH_MS = 10_000;
const MAX_OBJECT_BYTES = 4 * 1024 * 1024;

/** The data and the changes of the dashboard, from the parts of a gateway. */
export function dashboardData(options: GatewayDashboardOptions): DashboardData {
  const { parts, checks, unavailable, clock, times, traceUrl } = options;
  const known = (): ReadonlyMap<string, RunningController> => parts()?.manager.controllers.known() ?? new Map();
  const samples = new SampleCache(clock);
  const events = new EventReader(clock);
  const informers = (): readonly Informer[] => parts()?.manager.informers.all() ?? [];
  return {
    clock,
    times,
    traceUrl,
    checks,
    unavailable,
    gateway: () => gatewaySummary(parts()),
    replicas: recent(clock, async () => (await parts()?.replica.all()) ?? []),
    controllers: recent(clock, () =>
      Promise.all([...known().values()].map((controller) => summaryOf(controller, parts(), samples))),
    ),
    replays: () => parts()?.replays,
    functions: () => functionsOf(parts(), clock),
    views: recent(clock, () => Promise.all(informers().map((informer) => viewSummary(informer, known(), clock)))),
    controller: (id) => {
      const controller = known().get(id);
      return controller && controllerAccess(controller, parts, { samples, events, known, times });
    },
    queues: () => queuesOf(parts()?.manager.controllers),
    view: (name) => {
      const informer = informers().find((each) => each.name === name);
      return informer && viewAccess(informer.view, times);
    },
    search: async (visitor, text) => {
      return searchObjects(parseQuery(text), {
        views: informers().map(({ view }) => view),
        controllers: known(),
        hiddenReason: (view, namespace) => hiddenReason(view, visitor, { namespace }),
        time: times.ofVisitor(visitor.client),
      });
    },
    change: (visitor, reason) =>
      changeOf(reason, visitor, {
        parts: parts(),
        views: informers().map(({ view }) => view),
        time: times.ofVisitor(visitor.client),
      }),
  };
}

async function changeOf(
  { type, object, resourceVersion: version }: ChangeReason,
  visitor: ObjectVisitor,
  {
    parts,
    views,
    time,
  }: {
    readonly parts: DashboardParts | undefined;
    readonly views: readonly View[];
    readonly time: Pick<ReadingTime, 'paceBytes'>;
  },
): Promise<Shown<ObjectChange>> {
  const space = object.indexOf(' ');
  const at = decodeObjectKey(object.slice(space + 1));
  const view = views.find(
    (each) => formatKind(each.resource) === object.slice(0, space) && each.contains(at?.namespace),
  );
  if (!at || !view || !parts) return { kind: 'hidden', reason: 'The cache has no view of this object.' };
  const reason = await hiddenReason(view, visitor, at);
  if (reason !== undefined) return { kind: 'hidden', reason };
  const { resource } = view;
  const { metadataOnly = false } = settingsFor(parts.manager.informers.settings, formatKind(resource));
  return objectChange({
    resource,
    at,
    version,
    isDeletion: type === 'deleted',
    metadataOnly,
    client: parts.client,
    time,
    shown: (each) => shownObject(each, view, parts),
  });
}

function gatewaySummary(parts: DashboardParts | undefined): GatewaySummary {
  const { identity, leader = '', warning } = parts?.election ?? {};
  return { role: roleOf(parts), identity, leader: warning === undefined ? leader : '' };
}

/** The samples of controllers, as they were read last: a new one comes every half minute. */
class SampleCache {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #known = new WeakMap<
    RunningController,
    { readonly atMs: number; readonly samples: Promise<readonly Sample[]> }
  >();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  of(controller: RunningController): Promise<readonly Sample[]> {
    const now = this.#clock.now();
    const known = this.#known.get(controller);
    if (known && now - known.atMs < SAMPLES_FRESH_MS) return known.samples;
    const samples = controller.queue.history.samples();
    this.#known.set(controller, { atMs: now, samples });
    samples.catch(() => this.#known.delete(controller));
    return samples;
  }
}

async function summaryOf(
  controller: RunningController,
  parts: DashboardParts | undefined,
  cache: SampleCache,
): Promise<ControllerSummary> {
  const { name, origin, queue, description } = controller;
  const [samples, { oldestDueMs, oldestFailingMs, pauses, morePauses, pausedObjects, sizes }] = await Promise.all([
    cache.of(controller),
    queue.inspector.levels(),
  ]);
  return {
    id: name,
    origin,
    kind: formatKind(description.for),
    ...notesOf(controller, parts?.manager),
    concurrency: description.concurrency,
    oldestMs: oldestFailingMs === undefined ? oldestDueMs : Math.max(oldestFailingMs, oldestDueMs ?? 0),
    pauses,
    morePauses,
    pausedObjects,
    sizes,
    samples,
  };
}

function functionsOf(parts: DashboardParts | undefined, clock: DashboardData['clock']): FunctionSummary[] {
  if (!parts) return [];
  const { configured, controllers, declared } = parts.manager;
  const running = (id: string | undefined): Pick<FunctionSummary, 'openReason' | 'lastAnswer'> => {
    const controller = id === undefined ? undefined : controllers.known().get(id);
    return { openReason: controller?.circuit?.reason, lastAnswer: lastAnswerOf(controller, clock) };
  };
  return [
    ...configured.all().map((each) => ({ ...each, ...running(each.controller), rights: undefined })),
    ...[...(declared?.statuses() ?? [])].map(([id, status]) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      const problem = ready?.status === 'False' ? `${ready.reason}: ${ready.message}` : undefined;
      const rights = declared?.rightsOf(id);
      return { controller: id, url: status?.url, problem, ...running(id), rights };
    }),
  ];
}

function lastAnswerOf(
  controller: RunningController | undefined,
  clock: DashboardData['clock'],
): AnswerSummary | undefined {
  const last = controller?.endpoint.lastAnswer;
  if (!last) return undefined;
  return { atMs: clock.now() - (clock.wallNow() - last.wallMs), text: last.text, isFailure: last.isFailure };
}

async function viewSummary(
  informer: Informer,
  controllers: ReadonlyMap<string, RunningController>,
  clock: DashboardData['clock'],
): Promise<ViewSummary> {
  const { name, synced, view, unappliedMs } = informer;
  const [objects, { version }, lastList, ageMs] = await Promise.all([
    view.objects.size(),
    view.record.progress(),
    view.record.lastList(),
    informer.ageMs(),
  ]);
  const users = [...controllers.values()].filter((each) => each.sources.informers.includes(informer));
  return {
    name,
    objects,
    synced,
    encrypted: view.objects.encrypted,
    behindMs: ageMs === undefined || ageMs > MOST_AT_REST_MS ? ageMs : unappliedMs,
    lastList: lastList && { ...lastList, atMs: Math.min(lastList.atMs, clock.now()) },
    version,
    users: users.map((each) => each.name),
  };
}

function controllerAccess(
  controller: RunningController,
  parts: () => DashboardParts | undefined,
  { samples, events, known, times }: Shared,
): ControllerAccess {
  const { name, origin, queue, description, endpoint, cacheAccess, reconciledViews: views } = controller;
  const { scope } = cacheAccess;
  return {
    origin,
    description,
    url: endpoint.url,
    queue,
    summary: () => summaryOf(controller, parts(), samples),
    scope,
    rights: () => parts()?.manager.declared?.rightsOf(name),
    webhooks: () =>
      controller.reviews?.webhooks.map(({ webhook }) => {
        return { webhook, seen: controller.reviews?.sender.seen(webhook.name) };
      }) ?? [],
    conditions: () => parts()?.manager.declared?.conditions(name) ?? [],
    namespaced: views[0]?.resource.namespaced ?? true,
    views: views.map((view) => view.name),
    keys: async (visitor, search, page) => {
      const { namespace } = search;
      if (namespace !== '' && !isNamespace(namespace)) return { kind: 'shown', keys: [], looked: 0, next: undefined };
      for (const view of views.filter((each) => namespace === '' || each.contains(namespace))) {
        const reason = await hiddenReason(view, visitor, namespace === '' ? {} : { namespace });
        if (reason !== undefined) return { kind: 'hidden', reason };
      }
      const time = times.ofVisitor(visitor.client);
      const isInScope = (key: string): boolean => controller.hasInScope(key);
      return { kind: 'shown', ...(await keysIn(views, search, { ...page, isInScope, time })) };
    },
    requeue: (which, priority) => controller.requeue({ which, priority, message: 'by the dashboard' }),
    status: async (visitor, key) => {
      const [status, object] = await Promise.all([queue.inspector.status(key), keyObject(controller, visitor, key)]);
      return withCircuit({ ...status, object }, controller.circuit);
    },
    object: (visitor, key) =>
      objectStates(views, key, visitor, { parts: parts(), time: times.ofVisitor(visitor.client) }),
    around: (visitor, key) => {
      const time = times.ofVisitor(visitor.client);
      return surroundings(controller, key, visitor, { parts: parts(), controllers: known(), events, time });
    },
  };
}

/** The parts that all controllers' pages share. */
interface Shared {
  readonly samples: SampleCache;
  readonly events: EventReader;
  readonly known: () => ReadonlyMap<string, RunningController>;
  readonly times: DashboardData['times'];
}

async function surroundings(
  { name, reconciledViews }: RunningController,
  key: string,
  visitor: ObjectVisitor,
  {
    parts,
    controllers,
    events,
    time,
  }: {
    readonly parts: DashboardParts | undefined;
    readonly controllers: ReadonlyMap<string, RunningController>;
    readonly events: EventReader;
    readonly time: Pick<ReadingTime, 'pace' | 'tenant'>;
  },
): Promise<Surroundings | undefined> {
  const { namespace } = parseObjectKey(key);
  const view = reconciledViews.find((each) => each.contains(namespace));
  if (!view || !parts || (await hiddenReason(view, visitor, parseObjectKey(key))) !== undefined) return undefined;
  const object = await objectIn(view, key, time);
  if (!object) return undefined;
  const views = parts.manager.informers.all().map((informer) => informer.view);
  // One question about each kind and namespace.
  const asked = new Map<string, Promise<string | undefined>>();
  const hidden = (each: View, of: string): Promise<string | undefined> => {
    const at = of === '' ? {} : { namespace: namespaceOfKey(of) };
    const id = `${each.name} ${at.namespace ?? ''}`;
    const answer = asked.get(id) ?? hiddenReason(each, visitor, at);
    asked.set(id, answer);
    return answer;
  };
  const [tree, found, looks] = await Promise.all([
    objectTree(object, { views, controllers, hiddenReason: hidden, time, shownFor: name }),
    events.of(object, parts.client, visitor),
    controllersOf(object, formatKind(view.resource), { controllers, shownFor: name }),
  ]);
  return { tree, events: found, controllers: looks };
}

/**
 * The state of a key's object, for a visitor who may read the object: others must not learn whether there is one.
 * @throws LoginUnavailableError
 */
export async function keyObject(
  { objects }: Pick<RunningController, 'objects'>,
  visitor: ObjectVisitor,
  key: string,
): Promise<KeyObject> {
  const reason = await visitor.readRefusal({ ...parseObjectKey(key), resource: objects.resource });
  return reason === undefined ? objects.of(key) : { state: 'unknown', reason };
}

/**
 * Why objects of a view are hidden from a visitor; undefined when they are not. Secrets are hidden from all visitors.
 */
async function hiddenReason(
  view: View,
  visitor: ObjectVisitor,
  at: { readonly namespace?: string | undefined; readonly name?: string },
): Promise<string | undefined> {
  const { resource, objects, location } = view;
  const isSecret = objects.encrypted || formatKind(resource) === SECRET;
  if (isSecret) return 'Secrets are not shown here: ask the cluster with kubectl.';
  return visitor.readRefusal({ ...at, resource, namespace: at.namespace ?? location.namespace });
}

async function objectStates(
  views: readonly View[],
  key: string,
  visitor: ObjectVisitor,
  { parts, time }: { readonly parts: DashboardParts | undefined; readonly time: Pick<ReadingTime, 'pace' | 'tenant'> },
): Promise<ObjectStates> {
  const { namespace, name } = parseObjectKey(key);
  const view = views.find((each) => each.contains(namespace));
  if (!view || !parts) return { kind: 'hidden', reason: 'The cache has no view of objects in this namespace.' };
  const at = namespace === undefined ? { name } : { namespace, name };
  const reason = await hiddenReason(view, visitor, at);
  if (reason !== undefined) return { kind: 'hidden', reason };
  const [cached, server] = await Promise.all([objectIn(view, key, time), serverObject(view, at, parts)]);
  return { kind: 'shown', cached, ...server };
}

/** As `ViewObjects.get`, in the time of a visitor. */
async function objectIn(
  { objects }: View,
  key: string,
  { pace, tenant }: Pick<ReadingTime, 'pace' | 'tenant'>,
): Promise<KubernetesObject | undefined> {
  const [encoded] = await objects.first([key], tenant);
  return encoded && pace(() => encoded.decode());
}

/** The object as the server has it, without the fields that the cache leaves out of each object. */
async function serverObject(
  view: View,
  at: { readonly namespace?: string; readonly name: string },
  parts: DashboardParts,
): Promise<{ server: KubernetesObject | undefined; serverError: string | undefined }> {
  try {
    const object = await parts.client.json<KubernetesObject>({
      path: resourcePath(view.resource, at),
      maxBytes: MAX_OBJECT_BYTES,
      signal: AbortSignal.timeout(SERVER_MS),
    });
    return { server: shownObject(object, view, parts), serverError: undefined };
  } catch (error) {
    const isGone = error instanceof ApiError && error.code === 404;
    return { server: undefined, serverError: isGone ? undefined : messageOf(error) };
  }
}

/** An object of the server without the fields that the cache leaves out. Changes the object. */
function shownObject(object: KubernetesObject, { resource }: View, { manager }: DashboardParts): KubernetesObject {
  const kind = formatKind(resource);
  const settings = settingsFor(manager.informers.settings, kind);
  transformOf(settings, kind).object(object);
  const { apiVersion, kind: named, metadata } = object;
  return settings.metadataOnly === true ? { apiVersion, kind: named, metadata } : object;
}

function viewAccess(view: View, times: DashboardData['times']): ViewAccess {
  const shown = async <T>(reason: Promise<string | undefined>, read: () => Promise<T>): Promise<Shown<T>> => {
    const hidden = await reason;
    return hidden === undefined ? { kind: 'shown', ...(await read()) } : { kind: 'hidden', reason: hidden };
  };
  return {
    name: view.name,
    namespaced: view.resource.namespaced,
    list: async (visitor, selection, page) => {
      const { namespace } = selection;
      if (namespace !== undefined && !isNamespace(namespace)) return { kind: 'shown', ...NO_OBJECTS };
      const time = times.ofVisitor(visitor.client);
      return shown(hiddenReason(view, visitor, { namespace }), () =>
        time.inPlace(() => objectPage(view, selection, { ...page, time })),
      );
    },
    get: async (visitor, key) => {
      const at = decodeObjectKey(key);
      if (!at) return { kind: 'shown', object: undefined };
      const time = times.ofVisitor(visitor.client);
      return shown(hiddenReason(view, visitor, at), async () => ({ object: await objectIn(view, key, time) }));
    },
  };
}

const NO_OBJECTS: ObjectPage = { objects: [], next: undefined };

async function objectPage(
  view: View,
  { namespace, labels = '' }: ObjectSelection,
  {
    after,
    limit,
    time,
  }: { readonly after: string; readonly limit: number; readonly time: Pick<ReadingTime, 'pace' | 'tenant'> },
): Promise<ObjectPage> {
  const requirements = parseLabelSelector(labels);
  const selection = namespace === undefined ? {} : { namespace };
  const reader = view.reader(time.tenant);
  const state = await reader.state();
  if (!state) return NO_OBJECTS;
  const objects: KubernetesObject[] = [];
  let looked = 0;
  // The keys of a namespace are read in their order, a page at a time; labels are compared here, to a limit.
  const options = {
    state: { ...state, keys: undefined },
    after,
    first: limit,
    commandBytes: ANSWER_BYTES,
    pace: time.pace,
  };
  for await (const batch of reader.select(selection, options)) {
    for (const found of batch) {
      const object = await time.pace(() => found.decode());
      looked += 1;
      if (fulfils(requirements, object.metadata.labels)) objects.push(object);
      if (objects.length >= limit || looked >= MOST_LOOKED_AT) return { objects, next: found.key };
    }
  }
  return { objects, next: undefined };
}
