import { createServer } from 'node:http';
import { join } from 'node:path';
import { generateSecret, importSecret, sign, type SigningKey, type Trigger } from '../../src/contract/index.ts';
import { createCertificates } from '../../src/testing/control-plane/certificates.ts';
import { LoopbackServer } from '../harness/loopback-server.ts';
import { PlatformProject } from '../harness/platforms/platform-project.ts';
import { type Platform, PLATFORMS, type PlatformSetting } from '../harness/platforms/platforms.ts';
import { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';
import { median } from './median.ts';
import { privateMemory, processorMs } from './process-figures.ts';
import { figure, markdownTable } from './table.ts';

/**
 * The cold start of one controller on each platform: milliseconds from the start of its runtime until it listens, to
 * the answer to the first trigger (signature, one read of the cache over HTTP, outcome), and to a later one, and the
 * memory of the runtime then. A bare server on Node, which answers without reading, shows what Node and the machine
 * take of it. `npm run bench platforms`; `BENCH_ROUNDS` sets the number of starts (7).
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7);
const WARM = 50;

const bare: Platform = {
  name: 'Node, a bare server',
  streams: false,
  async start() {
    const process_ = new TestProcess('test/bench/platforms/bare-server.js', [], {}, [process.execPath]);
    const line = await process_.line(({ msg }) => msg === 'listening');
    return { process: process_, url: String(line['url']) };
  },
};
const ARMS = [bare, ...PLATFORMS];

const started = new Started();
try {
  const project = new PlatformProject(await started.directory());
  const directory = join(await started.directory(), 'certificates');
  await createCertificates(directory);
  // A cache API without objects: the run has nothing to do.
  const cache = createServer((_, outgoing) => outgoing.writeHead(404).end('{"kind":"Status","code":404}'));
  const { url: cacheUrl } = await started.open(new LoopbackServer(cache));
  const secret = generateSecret();
  const key = await importSecret(secret);
  const account = { server: 'https://127.0.0.1:1', caFile: join(directory, 'ca.crt'), token: 't', kubeconfig: '/none' };
  const setting: PlatformSetting = { project, account, secrets: secret, port: 0 };

  const [worker, lambda] = [await project.bundleForWorkers(), await project.bundleForLambda()];
  const bundles = [`Workers ${figure(worker.bytes / 1024)} KB`, `Lambda ${figure(lambda.bytes / 1024)} KB`];
  process.stdout.write(`bundles, minified: ${bundles.join(', ')}\n\n`);
  // The first start installs what is missing.
  for (const platform of ARMS) await measure(platform, setting, { key, cacheUrl });
  const rounds: Record<string, number[]>[] = ARMS.map(() => ({}));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, platform] of ARMS.entries()) {
      for (const [name, value] of Object.entries(await measure(platform, setting, { key, cacheUrl }))) {
        ((rounds[at] ??= {})[name] ??= []).push(value);
      }
    }
  }
  const columns = Object.keys(rounds[0] ?? {});
  const rows = ARMS.map(({ name }, at) => [
    name,
    ...columns.map((column) => figure(median(rounds[at]?.[column] ?? []))),
  ]);
  process.stdout.write(`${markdownTable([`median of ${ROUNDS}`, ...columns], rows)}\n`);
} finally {
  await started.stop();
}

interface Sender {
  readonly key: SigningKey;
  readonly cacheUrl: string;
}

async function measure(platform: Platform, setting: PlatformSetting, sender: Sender): Promise<Record<string, number>> {
  const fromMs = performance.now();
  const { process: runtime, url } = await platform.start(setting);
  const listensMs = performance.now() - fromMs;
  try {
    const cpuFrom = processorMs(runtime.pid);
    const first = await send(url, sender);
    const firstCpu = processorMs(runtime.pid) - cpuFrom;
    const warm: number[] = [];
    for (let at = 0; at < WARM; at += 1) warm.push(await send(url, sender));
    return {
      'listens after, ms': listensMs,
      'first request, ms': first,
      'its CPU, ms': firstCpu,
      'later request, ms': median(warm),
      'memory, MB': privateMemory(runtime.pid) / 1e6,
    };
  } finally {
    await runtime.kill('SIGKILL');
  }
}

/** Milliseconds until the answer to a trigger. */
async function send(url: string, { key, cacheUrl }: Sender): Promise<number> {
  const body = JSON.stringify({
    version: 'v1',
    controller: 'copies',
    deadline: new Date(Date.now() + 5000).toISOString(),
    remainingSeconds: 5,
    cache: { url: cacheUrl, token: 't', views: { 'v1/ConfigMap': [{ prefix: 'p' }] } },
    requests: [{ namespace: 'a', name: 'b', attempt: 1, run: 1, reasons: [] }],
  } satisfies Trigger);
  const headers = await sign([key], { id: crypto.randomUUID(), nowMs: Date.now(), body });
  const fromMs = performance.now();
  const answer = await fetch(url, { method: 'POST', body, headers: { ...headers } });
  const text = await answer.text();
  if (!text.includes('"done"')) throw new Error(`${answer.status} ${text}`);
  return performance.now() - fromMs;
}
