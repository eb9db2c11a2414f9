import type { Clock, MetricLabels } from '../../../core/index.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { informerLabels } from '../../informer/cache/informer-labels.ts';
import type { Informers } from '../../informer/cache/informers.ts';
import type { Controllers } from '../../controller/running/controllers.ts';
import { controllerState, notesOf } from '../../controller/running/controller-state.ts';
import type { PrometheusMetrics } from '../../process/metrics.ts';
import type { Progress } from '../../process/progress.ts';
import type { Recovery } from '../../recovery/recovery.ts';
import type { BullMqWorkQueue } from '../../controller/workqueue/bullmq-work-queue.ts';
import type { QueueLevels } from '../../controller/workqueue/work-queue.ts';

/** The parts that are asked at each scrape. */
export interface ScrapedParts {
  readonly controllers: Pick<Controllers, 'known' | 'get' | 'waitsFor'>;
  readonly informers: Pick<Informers, 'all'>;
  readonly progress: Pick<Progress, 'outboxMs' | 'stalled'>;
  readonly recovery: Pick<Recovery, 'healthy'>;
}

type Series = readonly [labels: MetricLabels, value: number][];

/**
 * controller-runtime's `LowPriority` (pkg/handler/eventhandler.go): keys that our queues have as backlog get this
 * priority in its queues.
 */
const LOW_PRIORITY = '-100';
/** client-go's `parseRVForMetricsWithTruncation` (tools/cache/thread_safe_store.go): a float holds 15 digits. */
const VERSION_DIGITS = 15;

/**
 * The metrics as text. Levels are read when they are scraped and not counted along, and set as a whole: a queue or view
 * that is gone, or that another gateway fills, has no series.
 * @param parts undefined while the gateway is starting
 */
export async function renderMetrics(
  metrics: PrometheusMetrics,
  parts: ScrapedParts | undefined,
  clock: Pick<Clock, 'sleep'>,
): Promise<string> {
  metrics.set('levelhook_gateway_suspended', {}, isSuspended(parts) ? 1 : 0);
  if (parts) {
    const answered = new AbortController();
    const reads = Promise.all([readQueues(parts), readVersions(parts)]);
    const tooLate = clock.sleep(ANSWER_MS, answered.signal).then(() => undefined);
    const [levels, versions = []] = (await Promise.race([reads, tooLate]).finally(() => answered.abort())) ?? [];
    const isRead = levels !== undefined;
    metrics.set('levelhook_redis_read', {}, isRead ? 1 : 0);
    setLevels(metrics, parts, levels ?? []);
    if (isRead) setDemand(metrics, levels);
    setVersions(metrics, versions);
    setRuns(metrics, parts);
    setViews(metrics, parts, isRead);
  }
  return metrics.registry.metrics();
}

/**
 * A silent Redis must not hold up all later scrapes. A late answer is not shown, because its ages have grown since.
 */
const ANSWER_MS = 2000;

/** The least time between the beginnings of two renderings. */
const EVERY_MS = 1000;

/**
 * Renders the metrics at most once a second and in half of the thread's time, because a scrape costs in proportion to
 * the controllers and needs no login. A request gets the first rendering that begins after it came, and shares it with
 * all others that wait for it. So no client reads a level that is older than its question.
 */
export class Scrapes {
  readonly #render: () => Promise<string>;
  readonly #clock: Pick<Clock, 'now' | 'sleep'>;
  /** The rendering that has not begun. */
  #next: Promise<string> | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** When the next rendering may begin. */
  #restedMs = -Infinity;

  constructor(render: () => Promise<string>, clock: Pick<Clock, 'now' | 'sleep'>) {
    this.#render = render;
    this.#clock = clock;
  }

  /** The metrics as text. */
  text(): Promise<string> {
    this.#next ??= this.#begin();
    return this.#next;
  }

  async #begin(): Promise<string> {
    await this.#last;
    const waitMs = this.#restedMs - this.#clock.now();
    if (waitMs > 0) await this.#clock.sleep(waitMs);
    this.#next = undefined;
    const text = this.#timed();
    this.#last = text.catch(() => {});
    return text;
  }

  async #timed(): Promise<string> {
    const fromMs = this.#clock.now();
    try {
      return await this.#render();
    } finally {
      this.#restedMs = fromMs + Math.max(EVERY_MS, 2 * (this.#clock.now() - fromMs));
    }
  }
}

/** By controller. While Redis is away, a question to them would wait until it is back. */
export function queuesOf(
  controllers: Pick<ScrapedParts['controllers'], 'known'> | undefined,
): ReadonlyMap<string, BullMqWorkQueue> {
  return new Map([...(controllers?.known() ?? [])].map(([name, { queue }]) => [name, queue]));
}

/** Whether nothing is dispatched: the gateway has not started, or each controller that runs is suspended. */
function isSuspended(parts: ScrapedParts | undefined): boolean {
  if (!parts) return true;
  const { controllers, recovery } = parts;
  const running = [...controllers.known().keys()].flatMap((name) => controllers.get(name) ?? []);
  return running.length > 0 ? running.every(({ queue }) => queue.gate.closed) : !recovery.healthy;
}

type Levels = readonly (readonly [controller: string, level: QueueLevels])[];

/** Undefined while recovery has not found Redis in order: nothing is asked then. */
async function readQueues(parts: ScrapedParts): Promise<Levels | undefined> {
  if (!parts.recovery.healthy) return undefined;
  const queues = queuesOf(parts.controllers);
  // Asked together, which costs the least. Other commands of this gateway go between.
  const read = await Promise.all(
    [...queues].map(async ([name, queue]) => [name, await queue.inspector.levels()] as const),
  );
  const known = parts.controllers.known();
  // The other controllers were removed during the reads.
  return read.filter(([name]) => known.has(name));
}

const seriesOf = (label: string, levels: Levels, value: (level: Levels[number][1]) => number): Series =>
  levels.map(([name, level]) => [{ [label]: name }, value(level)]);

/** A scaler would take no series for no demand, and stop the functions while Redis is away: the last demand stays. */
function setDemand(metrics: PrometheusMetrics, levels: Levels): void {
  metrics.replace(
    'levelhook_queue_demand',
    seriesOf('name', levels, ({ demand }) => demand),
  );
}

/** @param levels empty while Redis is not read: the last levels may show a queue at rest that has keys by now. */
function setLevels(metrics: PrometheusMetrics, parts: ScrapedParts, levels: Levels): void {
  const known = parts.controllers.known();
  metrics.replace(
    'workqueue_depth',
    levels.flatMap(([name, { sizes, low }]): Series => {
      const labels = { name, controller: name };
      return [
        [{ ...labels, priority: '0' }, sizes.queued],
        [{ ...labels, priority: LOW_PRIORITY }, low],
      ];
    }),
  );
  metrics.replace(
    'levelhook_controller_state',
    levels.flatMap(([name, level]): Series => {
      const controller = known.get(name);
      const state = controller && controllerState({ ...notesOf(controller, parts), ...level });
      return state ? [[{ controller: name, state }, 1]] : [];
    }),
  );
  metrics.replace(
    'levelhook_queue_oldest_due_seconds',
    seriesOf('name', levels, ({ oldestDueMs = 0 }) => oldestDueMs / 1000),
  );
  metrics.replace(
    'levelhook_queue_oldest_failing_seconds',
    seriesOf('name', levels, ({ oldestFailingMs = 0 }) => oldestFailingMs / 1000),
  );
  metrics.replace(
    'controller_runtime_active_workers',
    seriesOf('controller', levels, ({ sizes }) => sizes.running),
  );
}

function setRuns(metrics: PrometheusMetrics, { controllers }: ScrapedParts): void {
  const runs = [...controllers.known()].map(
    ([name, { queue }]) => [{ name, controller: name }, queue.unfinished()] as const,
  );
  metrics.replace(
    'workqueue_unfinished_work_seconds',
    runs.map(([labels, { totalMs }]) => [labels, totalMs / 1000]),
  );
  metrics.replace(
    'workqueue_longest_running_processor_seconds',
    runs.map(([labels, { longestMs }]) => [labels, longestMs / 1000]),
  );
}

/**
 * The metrics of the leading gateway, which fills the views.
 * @param isRead whether Redis is read: the outboxes are in it.
 */
function setViews(metrics: PrometheusMetrics, { informers, progress }: ScrapedParts, isRead: boolean): void {
  const views = filled(informers);
  metrics.replace(
    'informer_queued_items',
    views.map(({ view, unapplied }) => [informerLabels(view), unapplied]),
  );
  metrics.replace(
    'levelhook_view_oldest_unapplied_seconds',
    views.map(({ name, unappliedMs }) => [{ resource: name }, unappliedMs / 1000]),
  );
  metrics.replace(
    'levelhook_outbox_oldest_seconds',
    [...(isRead ? progress.outboxMs : [])].map(([resource, ageMs]) => [{ resource }, ageMs / 1000]),
  );
}

interface Version {
  readonly informer: Informer;
  readonly version: string | undefined;
  readonly behindMs: number | undefined;
}

/**
 * The gateway that fills a view knows its version and age without a trip to Redis while the view changes. The others
 * read the age, too: while no gateway leads, it shows for how long. There are none while Redis is away.
 */
function readVersions({ informers, recovery }: ScrapedParts): Promise<Version[]> {
  const views = recovery.healthy ? informers.all() : [];
  return Promise.all(
    views.map(async (informer) => {
      const [{ version }, behindMs] = await Promise.all([informer.view.record.progress(), informer.ageMs()]);
      return { informer, version: informer.isTaken ? version : undefined, behindMs };
    }),
  );
}

function setVersions(metrics: PrometheusMetrics, found: readonly Version[]): void {
  metrics.replace(
    'informer_store_resource_version',
    found.flatMap(({ informer: { view }, version }): Series =>
      version === undefined ? [] : [[informerLabels(view), Number(version.slice(-VERSION_DIGITS))]],
    ),
  );
  metrics.replace(
    'levelhook_view_behind_seconds',
    found.flatMap(({ informer: { name }, behindMs }): Series =>
      behindMs === undefined ? [] : [[{ resource: name }, behindMs / 1000]],
    ),
  );
}

function filled(informers: ScrapedParts['informers']): Informer[] {
  return informers.all().filter(({ isTaken }) => isTaken);
}
