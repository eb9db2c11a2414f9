import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import {
  boundedText,
  type Clock,
  decodeObjectKey,
  isNamespace,
  parseObjectKey,
  UserError,
} from '../../../core/index.ts';
import { namespace } from '../../../contract/name-schema.ts';
import {
  type ControllerNotes,
  controllerState,
  type ControllerStateWord,
} from '../../controller/running/controller-state.ts';
import type { RequeueRequest } from '../../controller/running/requeue.ts';
import { RightsUnknownError, type ServedRights } from './function-rights.ts';
import { audit, type AuditFields, type LoginEnv, type Visitor } from '../login/visitor.ts';
import type { ReadingTime, ReadingTimes } from '../cache-api/reading-time.ts';
import { recent } from './recent.ts';
import { type Awaited, awaitedBy } from '../../controller/dispatch/barrier.ts';
import {
  type OpenCircuit,
  servedCircuit,
  type ServedCircuit,
  withCircuit,
} from '../../controller/endpoint/open-circuit.ts';
import { dropDeadLetters, replayDeadLetters } from '../../controller/workqueue/records/dead-letters.ts';
import { keyState, type KeyStateWord } from '../../controller/workqueue/key-state.ts';
import {
  isPersonScope,
  KEY_LISTS,
  type KeyList,
  type KeyObject,
  type PersonScope,
} from '../../controller/workqueue/key-status.ts';
import { isCursor, RUN_OUTCOMES, type RunQuery } from '../../controller/workqueue/history/past-run.ts';
import { SAMPLE_MS } from '../../controller/workqueue/history/samples.ts';
import type {
  KeyStatus,
  PastRun,
  PauseSummary,
  QueueLevels,
  Wait,
  WorkQueue,
} from '../../controller/workqueue/work-queue.ts';

/** A wait as it is served: a barrier names the versions and deletions that it waits for. */
export type ServedWait =
  | Exclude<Wait, { reason: 'barrier' }>
  | (Omit<Extract<Wait, { reason: 'barrier' }>, 'barrier'> & { readonly awaits: readonly Awaited[] });

/** Everything about one key, as `GET /queues/<controller>/keys/<namespace>/<name>` serves it. */
export interface ServedKey extends Omit<KeyStatus, 'waits'> {
  /** The state of the key, in a word. */
  readonly state: KeyStateWord;
  readonly waits: readonly ServedWait[];
  /** Its last runs, the newest first, 10 at most. */
  readonly history: readonly PastRun[];
  /** The state of its controller, in a word. */
  readonly controllerState: ControllerStateWord;
  /** Problems of its controller, the worst first. */
  readonly problems: readonly string[];
}

/** The queues by their controller's name; or the reason, for people, why they cannot be asked now. */
export type Queues = () => ReadonlyMap<string, WorkQueue> | string;

export interface QueueApiOptions {
  readonly queues: Queues;
  readonly controller: (name: string) => AskedController | undefined;
  readonly clock: Pick<Clock, 'now'>;
  /** Each visitor's time of the thread, and place among the reads. Default: reads have no bound. */
  readonly times?: Pick<ReadingTimes, 'ofVisitor'>;
}

/** The facts about a controller that its queue does not have. */
export interface AskedController extends ControllerNotes {
  /** Whether the reconciled kind has namespaces, and so the keys. */
  readonly namespaced: boolean;
  readonly objectOf: (visitor: Pick<Visitor, 'client' | 'readRefusal'>, key: string) => Promise<KeyObject>;
  /**
   * The rights of its function in a namespace, by default that of its account. Undefined for a function with
   * credentials of its own. Rejects with a RightsUnknownError.
   */
  readonly rights?: ((namespace?: string) => Promise<ServedRights>) | undefined;
  /** See `RunningController.requeue`. */
  readonly requeue: (request: RequeueRequest) => Promise<number>;
}

/** One queue, as `GET /queues` serves it. */
export interface ServedQueue extends PauseSummary {
  readonly controller: string;
  readonly state: ControllerStateWord;
  /** Problems of the controller, the worst first. */
  readonly problems: readonly string[];
  /** Facts that a person may want to know although all is well. */
  readonly remarks: readonly string[];
  /** Sizes by list. */
  readonly keys: Readonly<Record<KeyList, number>>;
  /** Present while the gateway that was asked cannot reach the function. */
  readonly circuit?: ServedCircuit;
}

/** The answer to a pause or a resume. */
export interface PauseChange extends PauseSummary {
  /** Whether the scope was not paused before, or was. */
  readonly changed: boolean;
}

const page = z.object({
  list: z.enum(KEY_LISTS),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});

const key = z.string().refine((text) => decodeObjectKey(text) !== undefined, 'must be a key: namespace/name, or name');

const runs = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  outcome: z.enum(RUN_OUTCOMES).optional(),
  key: key.optional(),
  reconcileId: z.uuid('must be the `reconcileID` of a line of the log').optional(),
  before: z.string().refine(isCursor, 'must be the `next` of a page of runs').optional(),
  after: z.string().refine(isCursor, 'must be the `newest` of a page of runs').optional(),
});

const pausePage = z.object({
  after: z
    .string()
    .regex(/^\d{1,19}$/, 'must be the `next` of a page of pauses')
    .optional(),
});

const rightsQuery = z.object({ namespace: namespace.optional() });

/** Of one request. */
const MOST_KEYS = 1000;

/**
 * Runs that are read at a time, some 100 KiB at most, and bytes of an answer that is long enough without more of them.
 */
const RUNS_OF_STEP = 32;
const MOST_RUNS_BYTES = 128 * 1024;

const selection = z.union(
  [
    z.strictObject({ keys: z.array(key).min(1).max(MOST_KEYS) }),
    z.strictObject({ namespace }),
    z.strictObject({ all: z.literal(true) }),
  ],
  { error: `must be {keys} with 1 to ${MOST_KEYS} keys, {namespace}, or {all: true}` },
);

const pausable = z.strictObject({
  scope: z.custom<PersonScope>(isPersonScope, {
    message:
      'must be controller, namespace/<name> or key/<key>; object/<key> is the annotation levelhook.dev/paused of the object',
  }),
});

/**
 * Serves the state of the queues and the operations on them:
 *
 * - `GET /queues`: every queue (`ServedQueue`)
 * - `GET /queues/<controller>/keys?list=dead&offset=0&limit=100`: a list, page by page
 * - `GET /queues/<controller>/keys/<namespace>/<name>`: everything about one key (`ServedKey`)
 * - `GET /queues/<controller>/pauses?after=<next>`: all pauses, page by page (`PausePage`)
 * - `GET /queues/<controller>/runs?outcome=failed&key=<key>&limit=100&before=<next>&after=<newest>`: the last runs of
 *   all keys, the newest first (`RunPage`); with `reconcileId` those of one trigger. An answer ends before
 *   it has 256 KiB, and has a `next`
 * - `GET /queues/<controller>/rights?namespace=<name>`: what a function with `credentials: proxy` may do, and has done
 *   (`ServedRights`)
 * - `GET /queues/<controller>/samples`: the last hour in intervals of 30 s (`{seconds, samples}`)
 * - `POST /queues/<controller>/reconcile`: queues keys, by `{keys}` before those of a resync, and by `{namespace}` or
 *   `{all: true}` among these; the answer is `{queued}`
 * - `POST /queues/<controller>/replay` and `/drop`: dead letters, by `{keys}`, `{namespace}` or `{all: true}`
 * - `POST /queues/<controller>/pause` and `/resume`: `{scope}`, see `PersonScope`; the answer is `PauseChange`
 *
 * All bodies are JSON. A key or a namespace is refused which no key of the controller can have. The answer to a wrong
 * request is `{error}` with 400, 404, 413 (over 64 KiB) or 415, and with 503 while the queues cannot be asked. Eight
 * reads of a visitor go on at a time; others of the same visitor wait. All visitors share the sizes and pauses that
 * `GET /queues` tells for a second, or until a change by this API.
 */
export function queueApi(options: QueueApiOptions): Hono<LoginEnv> {
  const { queues, controller, clock, times } = options;
  /** Controllers whose objects are being read for a selection. */
  const selecting = new Set<string>();
  /** Controllers whose rights are being asked for. */
  const asking = new Set<string>();
  const app = new Hono<LoginEnv>();
  app.use(
    bodyLimit({
      maxSize: MAX_BODY_BYTES,
      onError: (context) => context.json({ error: 'the body is over 64 KiB' }, 413),
    }),
  );
  /** Of the last moment, which all visitors share: each is a script of Redis. */
  let levels = new WeakMap<WorkQueue, () => Promise<QueueLevels>>();
  const levelsOf = (queue: WorkQueue): Promise<QueueLevels> => {
    const read = levels.get(queue) ?? recent(clock, () => queue.inspector.levels());
    levels.set(queue, read);
    return read();
  };
  app.post('/*', async (_, next) => {
    await next();
    levels = new WeakMap();
  });
  app.get('/*', async (context, next) => {
    if (!times) return next();
    return times.ofVisitor(context.var.visitor.client).inPlace(next);
  });
  app.get('/', async (context) => {
    const all = queues();
    if (typeof all === 'string') return away(context, all);
    const served = [...all].map(([id, queue]) => servedQueue(queue, controller(id), levelsOf));
    return context.json({ queues: await Promise.all(served) });
  });
  app.get('/:name/keys', (context) =>
    withQueue(context, queues, async (queue) => {
      const parsed = page.safeParse(context.req.query());
      if (!parsed.success) return wrong(context, parsed.error);
      const { list, ...range } = parsed.data;
      return context.json(await queue.inspector.list(list, range));
    }),
  );
  app.get('/:name/keys/:key{[^]+}', (context) =>
    withQueue(context, queues, async (queue) => {
      const parsed = key.safeParse(context.req.param('key'));
      if (!parsed.success) return wrong(context, parsed.error);
      const asked = controller(queue.name);
      const mistake = keyMistake(queue.name, parsed.data, asked);
      if (mistake !== undefined) return refuse(context, mistake);
      const object = await asked?.objectOf(context.var.visitor, parsed.data);
      const [served, { state, problems }] = await Promise.all([
        servedKey(queue, { key: parsed.data, object, circuit: asked?.circuit, nowMs: clock.now() }),
        servedQueue(queue, asked, ({ inspector }) => inspector.levels()),
      ]);
      return context.json({ ...served, controllerState: state, problems } satisfies ServedKey);
    }),
  );
  app.get('/:name/pauses', (context) =>
    withQueue(context, queues, async (queue) => {
      const parsed = pausePage.safeParse(context.req.query());
      if (!parsed.success) return wrong(context, parsed.error);
      return context.json(await queue.inspector.pauses(parsed.data.after));
    }),
  );
  app.get('/:name/runs', (context) =>
    withQueue(context, queues, async (queue) => {
      const parsed = runs.safeParse(context.req.query());
      if (!parsed.success) return wrong(context, parsed.error);
      const { limit, outcome, key: only, reconcileId, before, after } = parsed.data;
      const mistake = only === undefined ? undefined : keyMistake(queue.name, only, controller(queue.name));
      if (mistake !== undefined) return refuse(context, mistake);
      const query = {
        limit,
        ...(outcome ? { outcome } : {}),
        ...(only ? { key: only } : {}),
        ...(reconcileId ? { reconcileId } : {}),
        ...(before ? { before } : {}),
        ...(after ? { after } : {}),
      };
      const time = times?.ofVisitor(context.var.visitor.client);
      const text = await runsText(queue.history, query, time?.pace ?? (async (work) => work()));
      return context.body(text, 200, { 'content-type': 'application/json' });
    }),
  );
  app.get('/:name/samples', (context) =>
    withQueue(context, queues, async (queue) =>
      context.json({ seconds: SAMPLE_MS / 1000, samples: await queue.history.samples() }),
    ),
  );
  app.get('/:name/rights', (context) =>
    withQueue(context, queues, async (queue) => {
      const parsed = rightsQuery.safeParse(context.req.query());
      if (!parsed.success) return wrong(context, parsed.error);
      const rights = controller(queue.name)?.rights;
      if (!rights)
        return refuse(context, `the gateway sees no requests of ${queue.name}: its credentials are not proxy`);
      try {
        const served = await oneAtATime(asking, queue.name, false, () => rights(parsed.data.namespace));
        return context.json(served satisfies ServedRights);
      } catch (error) {
        if (error instanceof RightsUnknownError) return away(context, error.message);
        if (error instanceof UserError) return refuse(context, error.message);
        throw error;
      }
    }),
  );
  app.post('/:name/reconcile', (context) =>
    withBody(context, options, { schema: selection, scopes: selectedScopes }, async (queue, which) => {
      audit(context, { controller: queue.name, action: 'reconcile', ...auditedSelection(which) });
      const queued = await oneAtATime(selecting, queue.name, 'keys' in which, async () => {
        return (await controller(queue.name)?.requeue(requeueOf(which))) ?? 0;
      });
      audit(context, { count: queued });
      return { queued };
    }),
  );
  app.post('/:name/replay', (context) =>
    withBody(context, options, { schema: selection, scopes: selectedScopes }, async (queue, which) => {
      audit(context, { controller: queue.name, action: 'replay', ...auditedSelection(which) });
      const replayed = await replayDeadLetters(queue, which);
      audit(context, { count: replayed });
      return { replayed };
    }),
  );
  app.post('/:name/drop', (context) =>
    withBody(context, options, { schema: selection, scopes: selectedScopes }, async (queue, which) => {
      audit(context, { controller: queue.name, action: 'drop', ...auditedSelection(which) });
      const dropped = await dropDeadLetters(queue, which);
      audit(context, { count: dropped });
      return { dropped };
    }),
  );
  app.post('/:name/pause', (context) =>
    withBody(context, options, { schema: pausable, scopes: ({ scope }) => [scope] }, async (queue, { scope }) => {
      audit(context, { controller: queue.name, action: 'pause', scope });
      return pauseChange(queue, await queue.pause(scope));
    }),
  );
  app.post('/:name/resume', (context) =>
    // A person may end any pause on record, also one of a scope that no key of the controller has.
    withBody(context, options, { schema: pausable, scopes: () => [] }, async (queue, { scope }) => {
      audit(context, { controller: queue.name, action: 'resume', scope });
      return pauseChange(queue, await queue.resume(scope));
    }),
  );
  return app;
}

/**
 * A `RunPage` as JSON. The history is read a few runs at a time, because a line of it may have 3 KiB, and more than
 * `MOST_RUNS_BYTES` and one such step would keep too much in memory for a visitor who takes it slowly.
 */
async function runsText(
  history: Pick<WorkQueue['history'], 'runs'>,
  { limit, ...query }: RunQuery,
  pace: ReadingTime['pace'],
): Promise<string> {
  const texts: string[] = [];
  let [found, bytes, newest] = [0, 0, undefined as string | undefined];
  let before = query.before;
  do {
    const asked = Math.min(RUNS_OF_STEP, limit - found);
    const { runs, ...page } = await history.runs({ ...query, limit: asked, ...(before ? { before } : {}) });
    newest ??= page.newest;
    before = page.next;
    found += runs.length;
    if (runs.length > 0) texts.push(await pace(() => JSON.stringify(runs).slice(1, -1)));
    bytes += Buffer.byteLength(texts.at(-1) ?? '');
    // Fewer runs than were asked for: it has looked at as much as one read may.
    if (runs.length < asked) break;
  } while (before !== undefined && found < limit && bytes < MOST_RUNS_BYTES);
  return `{"runs":[${texts.join()}]${field('next', before)}${field('newest', newest)}}`;
}

function field(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

async function pauseChange(queue: WorkQueue, changed: boolean): Promise<PauseChange> {
  return { changed, ...pausesIn(await queue.inspector.levels()) };
}

function pausesIn({ pauses, morePauses, pausedObjects }: PauseSummary): PauseSummary {
  return { pauses, morePauses, pausedObjects };
}

function selectedScopes(which: z.output<typeof selection>): PersonScope[] {
  if ('keys' in which) return which.keys.map((each): PersonScope => `key/${each}`);
  return 'namespace' in which ? [`namespace/${which.namespace}`] : [];
}

/** Why no key of the controller is in this scope; undefined when keys may be. */
function scopeMistake(name: string, scope: PersonScope, controller: AskedController | undefined): string | undefined {
  const text = scope.slice(scope.indexOf('/') + 1);
  if (scope.startsWith('namespace/'))
    return controller?.namespaced === false ? `keys of ${name} have no namespace` : undefined;
  if (scope === 'controller') return undefined;
  const mistake = keyMistake(name, text, controller);
  const remedy = controller?.namespaced === true && isNamespace(text);
  return mistake !== undefined && remedy ? `${mistake}: name the namespace by --namespace ${text}` : mistake;
}

/** Why this is no key of the controller; undefined when it may be one. */
function keyMistake(name: string, text: string, controller: AskedController | undefined): string | undefined {
  if (!controller || controller.namespaced === text.includes('/')) return undefined;
  return controller.namespaced ? `keys of ${name} are namespace/name` : `keys of ${name} have no namespace`;
}

/** @throws UserError while the same is done for the controller, unless it is cheap. */
async function oneAtATime<T>(busy: Set<string>, name: string, isCheap: boolean, work: () => Promise<T>): Promise<T> {
  if (isCheap) return work();
  if (busy.has(name)) throw new UserError(`the same is being done for ${name} already: try again later`);
  busy.add(name);
  try {
    return await work();
  } finally {
    busy.delete(name);
  }
}

/** Named keys are few, and somebody waits for them. */
function requeueOf(which: z.output<typeof selection>): RequeueRequest {
  if ('keys' in which) return { which: { keys: which.keys.map(parseObjectKey) }, priority: 'high' };
  return { which: { selection: 'namespace' in which ? { namespace: which.namespace } : {} }, priority: 'low' };
}

/** The selection, in a few words: the audit log does not list a thousand keys. */
function auditedSelection(which: z.output<typeof selection>): AuditFields {
  if ('keys' in which) return { keys: which.keys.slice(0, 3).join(' '), asked: which.keys.length };
  return 'namespace' in which ? { namespace: which.namespace } : { all: true };
}

/** A thousand keys of 60 characters. */
const MAX_BODY_BYTES = 64 * 1024;

/** Everything that is known of a key, with its last runs. */
async function servedKey(
  queue: WorkQueue,
  {
    key: name,
    object,
    circuit,
    nowMs,
  }: {
    readonly key: string;
    readonly object: KeyObject | undefined;
    readonly circuit: OpenCircuit | undefined;
    readonly nowMs: number;
  },
): Promise<Omit<ServedKey, 'controllerState' | 'problems'>> {
  const [found, history] = await Promise.all([queue.inspector.status(name), queue.history.runsOf(name)]);
  const status = withCircuit(object ? { ...found, object } : found, circuit);
  return { ...status, state: keyState(status, nowMs).word, waits: status.waits.map(servedWait), history };
}

function servedWait(wait: Wait): ServedWait {
  if (wait.reason !== 'barrier') return wait;
  const { barrier, ...rest } = wait;
  return { ...rest, awaits: awaitedBy(barrier) };
}

async function servedQueue(
  queue: WorkQueue,
  controller: AskedController | undefined,
  levelsOf: (queue: WorkQueue) => Promise<QueueLevels>,
): Promise<ServedQueue> {
  const levels = await levelsOf(queue);
  const { problems = [], remarks = [], isStarting = false, circuit } = controller ?? {};
  const state = controllerState({ ...levels, problems, remarks, isStarting, circuit });
  const shown = { controller: queue.name, state, problems, remarks, keys: levels.sizes, ...pausesIn(levels) };
  return { ...shown, ...(circuit ? { circuit: servedCircuit(circuit) } : {}) };
}

/** Most of the names that a sentence lists. */
const MOST_NAMED = 10;

/**
 * A person may have given the plural and the group in the other order, or the kind alone, or the key before the
 * controller.
 */
function noController(name: string, there: readonly string[], given?: string): string {
  if (given !== undefined && there.includes(given)) {
    return `there is no controller "${name}" in this gateway: there is ${given}, which comes before the key`;
  }
  const words = new Set(name.split('.'));
  const near = there.filter((each) => each.split('.').some((word) => words.has(word)));
  const named = (near.length > 0 ? near : there).toSorted();
  const more = named.length > MOST_NAMED ? ` and ${named.length - MOST_NAMED} more` : '';
  const list = named.length === 0 ? 'none' : named.slice(0, MOST_NAMED).join(', ') + more;
  return `there is no controller "${name}" in this gateway: there is ${list}`;
}

async function withQueue(
  context: Context,
  queues: Queues,
  use: (queue: WorkQueue) => Promise<Response>,
): Promise<Response> {
  const all = queues();
  if (typeof all === 'string') return away(context, all);
  const name = context.req.param('name') ?? '';
  const queue = all.get(name);
  if (!queue) {
    const error = noController(name, [...all.keys()], context.req.param('key'));
    return context.json({ error: boundedText(error, 1024) }, 404);
  }
  return use(queue);
}

/** The body of a request. `scopes` are those in it: a scope that no key of the controller can have is refused. */
interface Form<T> {
  readonly schema: z.ZodType<T>;
  readonly scopes: (body: T) => readonly PersonScope[];
}

function withBody<T>(
  context: Context,
  { queues, controller }: QueueApiOptions,
  { schema, scopes }: Form<T>,
  use: (queue: WorkQueue, body: T) => Promise<object>,
): Promise<Response> {
  return withQueue(context, queues, async (queue) => {
    // A page elsewhere can send a form across origins, but JSON only when it is allowed to.
    if (!context.req.header('content-type')?.startsWith('application/json')) {
      return context.json({ error: 'send JSON, with content-type application/json' }, 415);
    }
    const parsed = schema.safeParse(await context.req.json().catch(() => undefined));
    if (!parsed.success) return wrong(context, parsed.error);
    const asked = controller(queue.name);
    for (const scope of scopes(parsed.data)) {
      const mistake = scopeMistake(queue.name, scope, asked);
      if (mistake !== undefined) return refuse(context, mistake);
    }
    try {
      return context.json(await use(queue, parsed.data));
    } catch (error) {
      if (error instanceof UserError) return refuse(context, error.message);
      throw error;
    }
  });
}

function away(context: Context, reason: string): Response {
  return context.json({ error: boundedText(reason, 1024) }, 503);
}

function wrong(context: Context, error: z.ZodError): Response {
  const [issue] = error.issues;
  const where = issue?.path.join('.');
  return refuse(context, `${where ? `${where}: ` : ''}${issue?.message ?? 'not understood'}`);
}

function refuse(context: Context, mistake: string): Response {
  // The message may quote the request.
  return context.json({ error: boundedText(mistake, 1024) }, 400);
}
