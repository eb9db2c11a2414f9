import { availableParallelism } from 'node:os';
import { resource } from '../../src/core/index.ts';
import { startControlPlane } from '../../src/testing/index.ts';
import { Cluster } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import { reviewServing } from '../harness/webhook-configurations.ts';
import { Comparison } from './comparison.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { median, percentile } from './median.ts';
import { cpuSeconds } from './process-figures.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';
import { type WebhookArm, webhookArms, type WebhookArmName } from './webhooks/arms.ts';

/**
 * What one validating webhook adds to a write: dry-run creates of ConfigMaps in four namespaces, one after another and
 * in turn, so that the arms share each moment of the machine. One namespace has no webhook, one has that of an operator
 * with controller-runtime, one that of a function which the apiserver asks itself, one that of a function behind the
 * gateway. `npm run bench webhooks`; `BENCH_ROUNDS` and `BENCH_REVIEWS` (of each arm in a round) make it smaller.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const REVIEWS = Number(process.env['BENCH_REVIEWS'] ?? 1000);
const ARMS = Object.keys(webhookArms) as WebhookArmName[];
const [BASE = 'no webhook'] = ARMS;

const configurations = resource('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', {
  namespaced: false,
});

const found = new Comparison(
  ARMS,
  [
    { label: 'a dry-run create, p50, ms', figures: ['p50'], main: true },
    { label: 'p99, ms', figures: ['p99'], main: true },
    { label: 'added by the webhook, p50, ms', figures: ['added50'], panel: 'Added at the median, ms', main: true },
    { label: 'added by the webhook, p99, ms', figures: ['added99'], panel: 'Added at p99, ms', main: true },
    {
      label: 'CPU of a review, all processes of the arm, ms',
      figures: ['cpu'],
      panel: 'CPU of a review, ms',
      main: true,
    },
  ],
  { subject: 'through the gateway', to: ['controller-runtime'] },
);

interface Place extends WebhookArm {
  readonly name: WebhookArmName;
  readonly namespace: string;
}

const started = new Started();
stopAtSignal(started);
try {
  const plane = await startControlPlane({ onProgress: (line) => process.stderr.write(`${line}\n`) });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const serving = await reviewServing(started, plane.kubeconfig);
  const places: Place[] = [];
  for (const name of ARMS) {
    const arm = await webhookArms[name](started, { kubeconfig: plane.kubeconfig, serving });
    const namespace = uniqueName('webhooks');
    await cluster.createNamespace(namespace);
    if (arm.url !== undefined) await configure(cluster, { namespace, url: arm.url, ca: serving.ca });
    places.push({ ...arm, name, namespace });
  }
  for (const { url, namespace } of places) if (url !== undefined) await eventually(() => refuses(cluster, namespace));
  // Until each process has compiled what it needs.
  await measure(cluster, places, Math.min(REVIEWS, 500));
  for (let round = 0; round < ROUNDS; round += 1) {
    const machine = measureMachine();
    const cpuBefore = places.map(cpuOf);
    const times = await measure(cluster, places, REVIEWS);
    const load = machine();
    const of = (name: WebhookArmName): readonly number[] => times.get(name) ?? [];
    for (const [at, place] of places.entries()) {
      const [p50, p99] = [median(of(place.name)), percentile(of(place.name), 0.99)];
      const added = { added50: p50 - median(of(BASE)), added99: p99 - percentile(of(BASE), 0.99) };
      const cpu = (1000 * (cpuOf(place) - (cpuBefore[at] ?? 0))) / REVIEWS;
      const own = place.name === BASE ? {} : { ...added, cpu };
      found.add(place.name, { p50, p99, ...own, 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
    }
    process.stderr.write(`round ${round + 1}, ${formatLoad(load)}\n`);
  }
  const what =
    `Dry-run creates of a ConfigMap, one after another, ${REVIEWS} for each arm and round, medians of ${ROUNDS} rounds, ` +
    `Node ${process.versions.node}, ${availableParallelism()} processors.`;
  await showResults('webhooks', 'What a validating webhook adds to a write', what, found);
} finally {
  await started.stop();
}

/** Milliseconds of each create. The order of the arms changes with each create. */
async function measure(
  cluster: Cluster,
  places: readonly Place[],
  count: number,
): Promise<Map<WebhookArmName, number[]>> {
  const times = new Map<WebhookArmName, number[]>(places.map(({ name }) => [name, []]));
  for (let at = 0; at < count; at += 1) {
    for (let next = 0; next < places.length; next += 1) {
      const place = places[(at + next) % places.length];
      if (!place) continue;
      const from = performance.now();
      await dryRun(cluster, place.namespace, { change: `${at}` });
      times.get(place.name)?.push(performance.now() - from);
    }
  }
  return times;
}

function dryRun(cluster: Cluster, namespace: string, data: Record<string, string>): Promise<unknown> {
  return cluster.client.json({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/configmaps?dryRun=All`,
    body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'change', namespace }, data },
  });
}

/** The webhook is in force: it refuses what the others would take. */
async function refuses(cluster: Cluster, namespace: string): Promise<void> {
  const answer = await dryRun(cluster, namespace, {}).then(
    () => 'allowed',
    (error: unknown) => String(error),
  );
  if (!answer.includes('data.change must not be empty')) throw new Error(`not refused: ${answer}`);
}

async function configure(
  cluster: Cluster,
  { namespace, url, ca }: { namespace: string; url: string; ca: string },
): Promise<void> {
  await cluster.create(configurations, {
    metadata: { name: namespace },
    webhooks: [
      {
        name: 'changes.bench.levelhook.dev',
        clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE', 'UPDATE'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  });
}

function cpuOf({ pids }: WebhookArm): number {
  return pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
}
