/**
 * Draws the trace of a Deployment's rollout, from the spans of two gateways and of the apiserver, into an SVG file:
 * `node --conditions=levelhook-source test/bench/rollout-trace.ts infra/docs/trace-of-a-rollout.svg`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, pods } from '../harness/cluster.ts';
import { deployment, deployments } from '../harness/deployments.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, startFunction, startGateway, untilReady } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import { type CollectedSpan, TraceCollector } from '../harness/trace-collector.ts';

const file = process.argv[2];
if (file === undefined) throw new Error('name a file for the picture');

const PODS = 3;
const NAME = 'web';
const NAMESPACE = 'shop';
const GATEWAY = 'levelhook-gateway';
/** Of the apiserver's spans: requests, and what etcd does for them. */
const SHOWN = /^(GET|POST|PUT|PATCH|DELETE) |^etcdserverpb/;

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const collector = await started.open(new TraceCollector());
  const folder = mkdtempSync(join(tmpdir(), 'levelhook-trace-'));
  started.add(async () => rmSync(folder, { recursive: true }));
  const config = join(folder, 'tracing.yaml');
  writeFileSync(
    config,
    `apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: ${collector.grpcEndpoint}\n`,
  );
  const redis = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const plane = await startControlPlane({ onProgress, apiserverArguments: [`--tracing-config-file=${config}`] });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  await cluster.createNamespace(NAMESPACE);
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const names = ['deployment', 'replicaset'];
  const functions = await Promise.all(names.map(async (name) => started.keep(await startFunction(setting, name))));
  const urls = functions.map(({ url }) => url);
  for (let gateways = 0; gateways < 2; gateways += 1) {
    const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, LEVELHOOK_LEASE: `${NAMESPACE}/levelhook` };
    const gateway = started.keep(await startGateway(setting, urls, variables));
    await untilReady(gateway.url);
  }
  // The first one pays for the start of the functions.
  for (const name of ['first', NAME]) {
    collector.spans.length = 0;
    await cluster.create(deployments, deployment({ namespace: NAMESPACE, name }, PODS));
    await eventually(async () => {
      const { items } = await cluster.list(pods, NAMESPACE, `app=${name}`);
      if (items.length !== PODS) throw new Error(`${items.length} pods instead of ${PODS}`);
      const count = rolloutOf(collector.spans).filter(({ span }) => isCreation(span, '/pods')).length;
      if (count !== PODS) throw new Error(`${count} spans of the creation of pods instead of ${PODS}`);
    });
  }
  writeFileSync(file, picture(rolloutOf(collector.spans)));
} finally {
  await started.stop();
}

interface Row {
  readonly span: CollectedSpan;
  readonly depth: number;
}

/**
 * The spans from the first run of the Deployment to the first run that has created its pods, as they caused each other:
 * a span is below its parent, and a run below the run whose write has woken it.
 */
function rolloutOf(spans: readonly CollectedSpan[]): Row[] {
  const isRoot = ({ name }: CollectedSpan): boolean => name.startsWith('reconcile ');
  const byStart = spans.toSorted((a, b) => a.startMs - b.startMs);
  const first = byStart.find(
    (span) => isRoot(span) && span.name.endsWith('deployment') && writesOf(span.traceId, '/replicasets'),
  );
  if (!first) return [];
  const rows = treeOf(first, 0);
  const own = new Set(rows.map(({ span: { spanId } }) => spanId));
  const woken = byStart.find(
    (span) =>
      isRoot(span) &&
      span.name.endsWith('replicaset') &&
      isLinked(span.traceId, own) &&
      writesOf(span.traceId, '/pods'),
  );
  return woken ? [...rows, ...treeOf(woken, 1)] : rows;

  function writesOf(traceId: string, path: string): boolean {
    return spans.some((span) => span.traceId === traceId && isCreation(span, path));
  }
  /** Whichever of two runs was recorded later has the link. */
  function isLinked(traceId: string, others: ReadonlySet<string>): boolean {
    const ids = new Set(spans.filter((span) => span.traceId === traceId).map(({ spanId }) => spanId));
    return spans.some(
      ({ spanId, links }) =>
        (ids.has(spanId) && links.some((link) => others.has(link.spanId))) ||
        (others.has(spanId) && links.some((link) => ids.has(link.spanId))),
    );
  }
  function treeOf(span: CollectedSpan, depth: number): Row[] {
    const below = byStart.filter((each) => each.traceId === span.traceId && each.parentSpanId === span.spanId);
    const isShown = span.service === GATEWAY || SHOWN.test(span.name);
    const rows = below.flatMap((each) => treeOf(each, isShown ? depth + 1 : depth));
    return isShown ? [{ span, depth }, ...rows] : rows;
  }
}

function isCreation({ name }: CollectedSpan, path: string): boolean {
  return name.startsWith('POST') && name.endsWith(path);
}

function picture(rows: readonly Row[]): string {
  const [left, width, height, head] = [430, 1000, 20, 40];
  const from = Math.min(...rows.map(({ span }) => span.startMs));
  const to = Math.max(...rows.map(({ span }) => span.endMs));
  const x = (ms: number): number => left + ((ms - from) / (to - from)) * (width - left - 90);
  const text = (at: number, y: number, content: string, more = ''): string =>
    `<text x="${at.toFixed(1)}" y="${y}"${more}>${content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`;
  const lines = rows.map(({ span, depth }, at) => {
    const y = head + at * height;
    const fill = span.service === GATEWAY ? '#2f6f9f' : '#b3703a';
    const bar = `<rect x="${x(span.startMs).toFixed(1)}" y="${y + 4}" width="${Math.max(2, x(span.endMs) - x(span.startMs)).toFixed(1)}" height="12" rx="2" fill="${fill}"/>`;
    const took = `${(span.endMs - span.startMs).toFixed(1)} ms`;
    return [
      at % 2 === 0 ? `<rect x="0" y="${y}" width="${width}" height="${height}" fill="#f4f6f8"/>` : '',
      text(8 + depth * 14, y + 14, span.name),
      bar,
      text(x(span.endMs) + 6, y + 14, took, ' fill="#5b6570"'),
    ].join('');
  });
  const total = head + rows.length * height + 10;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${total}" fill="#fff"/>`,
    text(
      8,
      24,
      `A Deployment of ${PODS} pods, from its first event to its last pod: ${(to - from).toFixed(0)} ms`,
      ' font-size="15"',
    ),
    `<rect x="${width - 210}" y="14" width="12" height="12" fill="#2f6f9f"/>`,
    text(width - 194, 24, 'gateway'),
    `<rect x="${width - 120}" y="14" width="12" height="12" fill="#b3703a"/>`,
    text(width - 104, 24, 'kube-apiserver'),
    ...lines,
    '</svg>',
    '',
  ].join('\n');
}
