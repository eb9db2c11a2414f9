import {
  CoreV1Api,
  KubeConfig,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  type V1ConfigMap,
} from '@kubernetes/client-node';
import { machineMs } from '../../../harness/machine-clock.ts';
import { concurrency, namespace, type Read, reportRun, reportStamped, stampPatch } from '../report.ts';

/**
 * The operator that a TypeScript user writes with @kubernetes/client-node alone: an informer, a queue in memory that
 * runs a key once at a time, and another try after a second. `operator.ts KUBECONFIG`
 */
const RETRY_MS = 1000;
const config = new KubeConfig();
config.loadFromFile(process.argv[2] ?? '');
const api = config.makeApiClient(CoreV1Api);
const informer = makeInformer<V1ConfigMap>(config, '/api/v1/configmaps', () => api.listConfigMapForAllNamespaces());

const waiting = new Set<string>();
const running = new Set<string>();

function add(key: string): void {
  waiting.add(key);
  run();
}

/** Starts what may start: a key that runs stays in the queue until its run has ended. */
function run(): void {
  for (const key of waiting) {
    if (running.size >= concurrency) return;
    if (running.has(key)) continue;
    waiting.delete(key);
    running.add(key);
    void reconcile(key)
      .catch((error: unknown) => {
        process.stderr.write(`${String(error)}\n`);
        setTimeout(() => add(key), RETRY_MS);
      })
      .finally(() => {
        running.delete(key);
        run();
      });
  }
}

async function reconcile(key: string): Promise<void> {
  const startedAtMs = machineMs();
  const [keyNamespace = '', name = ''] = key.split('/');
  if (keyNamespace !== namespace) return;
  const object = informer.get(name, keyNamespace);
  if (!object) return;
  const change = reportRun(object as unknown as Read, startedAtMs);
  if (change === undefined) return;
  await api.patchNamespacedConfigMap(
    { name, namespace, body: stampPatch(change) },
    setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
  );
  reportStamped(name);
}

for (const event of ['add', 'update', 'delete'] as const) {
  informer.on(event, ({ metadata }) => add(`${metadata?.namespace}/${metadata?.name}`));
}
informer.on('error', (error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  setTimeout(() => void informer.start(), RETRY_MS);
});
process.stdout.write('{"msg":"listening"}\n');
await informer.start();
