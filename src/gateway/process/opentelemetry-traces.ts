import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Attributes, Link, Tracer } from '@opentelemetry/api';
import { spanIdOf, type TracedTrigger, traceIdOf, type Traces, withoutPackage } from '../../core/index.ts';
import type { LinkedSpan, TracedChanges } from './traced-changes.ts';

export interface TracesOptions {
  /** Where the collector takes traces: the whole URL. */
  readonly collector: string;
  /** The part of all triggers that is recorded, from 0 to 1. The ID of a trace decides. */
  readonly ratio: number;
  /** The page that shows a trace, with `{traceId}` in it. Undefined: there is none. */
  readonly url: string | undefined;
  /** Of this build. */
  readonly version: string;
}

/** The parts of OpenTelemetry's own packages, which are loaded when traces are on. */
type Packages = Awaited<ReturnType<typeof loadPackages>>;

/** A longer text of an error or a name is cut. */
const MOST_CHARACTERS = 1024;
/** The function decides how many writes a run names. */
const MOST_WRITES = 5;
/** How long the end waits for traces that are being linked. */
const END_MS = 1000;

/**
 * Sends the spans of triggers to a collector by OTLP over HTTP. OpenTelemetry's packages read further settings
 * themselves (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and others). Spans are sent
 * in the background, at most 2,048 of them wait, and those of a collector that is away are lost: nothing waits for it.
 *
 * A trace is `reconcile CONTROLLER` with, for each run, its key from the event to the answer and its wait in the queue;
 * and the request to the function, which the function's own spans and those of the apiserver join. All are recorded
 * when the trigger has been answered, so a trigger holds nothing while it is under way.
 *
 * The trace of a run links the run whose write has woken it, so that a reader can follow a rollout from controller to
 * controller and from gateway to gateway. Of two runs the one that is recorded later has the link. A run that goes on
 * after its answer, and a deletion, have none.
 */
export class OpenTelemetryTraces implements Traces {
  readonly #options: TracesOptions;
  #packages: Packages | undefined;
  #isSampled: (traceId: string) => boolean = () => false;
  #tracer: Tracer | undefined;
  #stop: () => Promise<void> = async () => {};
  #changes: TracedChanges | undefined;
  /** The traces that are being linked. */
  readonly #linking = new Set<Promise<void>>();
  /** The IDs of the next span. Empty: any. */
  readonly #next = { traceId: '', spanId: '' };

  constructor(options: TracesOptions) {
    this.#options = options;
  }

  /** Nothing is recorded before this. @throws UserError when a package is missing. */
  async start(): Promise<void> {
    const { collector, ratio, version } = this.#options;
    const packages = await loadPackages();
    const { api, exporter, resources, sdk } = packages;
    const sampler = new sdk.TraceIdRatioBasedSampler(ratio);
    const next = this.#next;
    const provider = new sdk.TracerProvider({
      sampler,
      spanLimits: { attributeValueLengthLimit: MOST_CHARACTERS },
      resource: resources
        .resourceFromAttributes({ 'service.name': 'levelhook-gateway', 'service.version': version })
        .merge(resources.detectResources({ detectors: [resources.envDetector] })),
      idGenerator: {
        generateTraceId: () => next.traceId || randomBytes(16).toString('hex'),
        generateSpanId: () => next.spanId || newSpanId(),
      },
      spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new exporter.OTLPTraceExporter({ url: collector }) })],
    });
    this.#isSampled = (traceId) => {
      const { decision } = sampler.shouldSample(api.ROOT_CONTEXT, traceId);
      return decision === sdk.SamplingDecision.RECORD_AND_SAMPLED;
    };
    this.#stop = () => provider.shutdown();
    this.#tracer = provider.getTracer('levelhook', version);
    this.#packages = packages;
  }

  /** From now on runs are linked. */
  linkThrough(changes: TracedChanges): void {
    this.#changes = changes;
  }

  /** Sends what waits. */
  async stop(): Promise<void> {
    await Promise.race([Promise.allSettled(this.#linking), sleep(END_MS, undefined, { ref: false })]);
    // A collector that is away must not keep the gateway.
    await this.#stop().catch(() => {});
  }

  traceparent(id: string): string | undefined {
    const traceId = traceIdOf(id);
    return this.#isSampled(traceId) ? `00-${traceId}-${spanIdOf(id)}-01` : undefined;
  }

  urlOf(id: string): string | undefined {
    const { url } = this.#options;
    const traceId = traceIdOf(id);
    return url !== undefined && this.#isSampled(traceId) ? url.replaceAll('{traceId}', traceId) : undefined;
  }

  record(trigger: TracedTrigger): void {
    const [tracer, packages] = [this.#tracer, this.#packages];
    if (!tracer || !packages || this.traceparent(trigger.id) === undefined) return;
    const linking = this.#link(trigger).then((spans) => this.#record(trigger, spans, { tracer, packages }));
    this.#linking.add(linking);
    void linking.finally(() => this.#linking.delete(linking));
  }

  /** The IDs of the spans of the runs, and the spans that they are linked with. */
  async #link({ id, runs }: TracedTrigger): Promise<readonly RunSpan[]> {
    const traceId = traceIdOf(id);
    const linked = runs.map(async (run): Promise<RunSpan> => {
      const spanId = newSpanId();
      return { spanId, links: (await this.#changes?.join(run, { traceId, spanId })) ?? [] };
    });
    return Promise.all(linked);
  }

  #record(
    { id, controller, sentMs, answeredMs, runs }: TracedTrigger,
    spans: readonly RunSpan[],
    { tracer, packages }: { readonly tracer: Tracer; readonly packages: Packages },
  ): void {
    const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } = packages.api;
    const queuedMs = (waitedMs = 0): number => sentMs - waitedMs;
    const from = Math.min(...runs.map(({ waitedMs }) => queuedMs(waitedMs)));
    const attributes = { 'levelhook.controller': controller, 'levelhook.reconcile_id': id };
    this.#next.traceId = traceIdOf(id);
    const root = tracer.startSpan(`reconcile ${controller}`, { attributes, startTime: from, root: true }, ROOT_CONTEXT);
    this.#next.traceId = '';
    const within = trace.setSpan(ROOT_CONTEXT, root);
    for (const [at, { key, run, attempt, waitedMs, reasons, outcome, error, wrote }] of runs.entries()) {
      const startTime = queuedMs(waitedMs);
      const facts: Attributes = {
        'levelhook.key': key,
        'levelhook.run': run,
        'levelhook.attempt': attempt,
        'levelhook.reasons': [...reasons],
        'levelhook.outcome': outcome,
        'levelhook.wrote': wrote.slice(0, MOST_WRITES),
      };
      const { spanId = '', links = [] } = spans[at] ?? {};
      this.#next.spanId = spanId;
      const span = tracer.startSpan(key, { attributes: facts, startTime }, within);
      this.#next.spanId = '';
      span.addLinks(
        links.map(({ change, relation, ...ids }): Link => {
          const context = { ...ids, traceFlags: TraceFlags.SAMPLED, isRemote: true };
          return { context, attributes: { [`levelhook.${relation}`]: change } };
        }),
      );
      if (waitedMs) tracer.startSpan('wait in the queue', { startTime }, trace.setSpan(ROOT_CONTEXT, span)).end(sentMs);
      if (error !== undefined) {
        const message = error.slice(0, MOST_CHARACTERS);
        for (const failed of [span, root]) failed.setStatus({ code: SpanStatusCode.ERROR, message });
      }
      span.end(answeredMs);
    }
    this.#next.spanId = spanIdOf(id);
    const sent = tracer.startSpan('trigger', { kind: SpanKind.CLIENT, startTime: sentMs }, within);
    this.#next.spanId = '';
    sent.end(answeredMs);
    root.end(answeredMs);
  }
}

/** A run in its trace. */
interface RunSpan {
  readonly spanId: string;
  readonly links: readonly LinkedSpan[];
}

function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

async function loadPackages() {
  const [api, sdk, exporter, resources] = await Promise.all([
    import('@opentelemetry/api').catch(withoutPackage('@opentelemetry/api')),
    import('@opentelemetry/sdk-trace').catch(withoutPackage('@opentelemetry/sdk-trace')),
    import('@opentelemetry/exporter-trace-otlp-http').catch(withoutPackage('@opentelemetry/exporter-trace-otlp-http')),
    import('@opentelemetry/resources').catch(withoutPackage('@opentelemetry/resources')),
  ]);
  return { api, sdk, exporter, resources };
}
