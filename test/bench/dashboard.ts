import { setTimeout as sleep } from 'node:timers/promises';
import { startControlPlane } from '../../src/testing/index.ts';
import { Cluster } from '../harness/cluster.ts';
import { type FullGateway, fullGatewayPaths, startFullGateway } from '../harness/full-gateway.ts';
import { type Listening, startFunctionProcess } from '../harness/levelhook.ts';
import type { TestProcess } from '../harness/process.ts';
import { slowCommandsOf, watchSlowCommands } from '../harness/slow-commands.ts';
import { Started } from '../harness/started.ts';
import { type LineObjects, measureLineRate } from './dashboard/line-rate.ts';
import { OpenPages } from './dashboard/open-pages.ts';
import { createObjects } from './line/parts.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { median } from './median.ts';
import { cpuSeconds } from './process-figures.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * What the dashboard costs a gateway with many controllers, keys, dead letters and runs: `npm run bench dashboard`.
 * `BENCH_CONTROLLERS` (50), `BENCH_WAITING` (100,000 keys over all), `BENCH_DEAD` (10,000) and `BENCH_RUNS` (10,000 in
 * each of four histories) set the size, `BENCH_VISITS` (10) how often each page is asked for, `BENCH_OBJECTS` (4,000),
 * `BENCH_ROUNDS` (5 with pages, 5 without) and `BENCH_SECONDS` (12, of a round) the measurement of the line.
 * `BENCH_PARTS` chooses: `pages,line`.
 */
const CONTROLLERS = Number(process.env['BENCH_CONTROLLERS'] ?? 50);
const WAITING = Number(process.env['BENCH_WAITING'] ?? 100_000);
const DEAD = Number(process.env['BENCH_DEAD'] ?? 10_000);
const RUNS = Number(process.env['BENCH_RUNS'] ?? 10_000);
const VISITS = Number(process.env['BENCH_VISITS'] ?? 10);
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 4000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
/** Longer than a page waits before it comes up to date. */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 12);
const PARTS = process.env['BENCH_PARTS']?.split(',') ?? ['pages', 'line'];
/** Overview and views show the same for so long to all: what is younger costs nothing. */
const FRESH_MS = 1050;
const SHARED = /^[/]dashboard([?].*|[/]views)?$/;
const SLOW_US = 5000;
const OPEN_MS = 20_000;
const NAMESPACE = 'bench';

const print = (line: string): boolean => process.stdout.write(`${line}\n`);
const started = new Started();
stopAtSignal(started);
try {
  const plane = await startControlPlane({ onProgress: (line) => process.stderr.write(`${line}\n`) });
  started.add(() => plane.stop());
  const { kubeconfig } = plane;
  const cluster = await Cluster.connect(kubeconfig);
  started.add(() => cluster.close());
  await cluster.createNamespace(NAMESPACE);
  const objects = { cluster, namespace: NAMESPACE, count: OBJECTS };
  await createObjects(objects);
  let line: Listening | undefined;
  const full = await startFullGateway(
    { controllers: CONTROLLERS, waiting: WAITING, dead: DEAD, runs: RUNS },
    {
      started,
      cluster,
      kubeconfig,
      namespace: NAMESPACE,
      startFunction: async (setting) => {
        line = await startFunctionProcess(setting, 'test/bench/line/levelhook/function.ts', {
          variables: { BENCH_NAMESPACE: NAMESPACE, BENCH_OBJECTS: `${OBJECTS}`, BENCH_CONCURRENCY: '50' },
        });
        return line;
      },
    },
  );
  if (!line) throw new Error('the function of the line was not started');
  const fn = line.process;
  await fn.line(({ msg }) => msg === 'seen all');
  print(
    `${CONTROLLERS} controllers, ${WAITING} waiting keys, ${DEAD} dead letters, four histories of up to ${RUNS} runs`,
  );
  if (PARTS.includes('pages')) await measurePages(full);
  if (PARTS.includes('line')) await measureLine(full, objects, fn);
} finally {
  await started.stop();
}

/** The time of each page, and its commands over 5 ms. */
async function measurePages({ gateway, redis }: FullGateway): Promise<void> {
  await watchSlowCommands(redis, SLOW_US);
  for (const [name, path] of Object.entries(fullGatewayPaths(NAMESPACE))) {
    const times: number[] = [];
    let bytes = 0;
    const slow = await slowCommandsOf(redis, async () => {
      for (let visit = 0; visit < VISITS; visit += 1) {
        const from = performance.now();
        const answer = await fetch(gateway.url + path);
        bytes = (await answer.text()).length;
        if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
        times.push(performance.now() - from);
        if (SHARED.test(path)) await sleep(FRESH_MS);
      }
    });
    const [first = 0, ...later] = times;
    const commands = slow.map(({ what, us }) => `${what.slice(0, 80)} ${us} us`).join('; ');
    print(
      `${name}: first ${first.toFixed(0)} ms, median ${median(later).toFixed(0)} ms, most ${Math.max(...later).toFixed(0)} ms, ` +
        `${bytes} characters; commands over 5 ms: ${commands || 'none'}`,
    );
  }
  const idle = await cpuOver(gateway, OPEN_MS);
  const pages = new OpenPages(openUrls(gateway.url));
  const open = await cpuOver(gateway, OPEN_MS);
  const { pages: loaded } = await pages.close();
  print(
    `processor of the gateway: ${percent(idle)} without pages, ${percent(open)} with ten that load ${loaded} times ` +
      `in ${OPEN_MS / 1000} s`,
  );
}

/** The rate of the line with ten open pages and with none, in turn. */
async function measureLine(full: FullGateway, objects: LineObjects, fn: TestProcess): Promise<void> {
  const urls = openUrls(full.gateway.url);
  const figures: Record<'closed' | 'open', { rate: number; cpuMs: number }[]> = { closed: [], open: [] };
  // Not counted: code that runs first is compiled.
  await measureLineRate(objects, fn, SECONDS);
  for (let round = 0; round < 2 * ROUNDS; round += 1) {
    // none, pages, pages, none: a machine that becomes slower slows both.
    const arm = round % 4 === 1 || round % 4 === 2 ? 'open' : 'closed';
    const pages = arm === 'open' ? new OpenPages(urls) : undefined;
    // Pages that are open have been loaded before.
    await sleep(2000);
    const machine = measureMachine();
    const from = cpuOf(full);
    const { changes, perSecond: rate } = await measureLineRate(objects, fn, SECONDS);
    const cpuMs = (1000 * (cpuOf(full) - from)) / changes;
    const load = formatLoad(machine());
    const visits = await pages?.close();
    figures[arm].push({ rate, cpuMs });
    const seen = visits ? `, ${visits.pages} pages and ${visits.events} events` : '';
    print(
      `round ${round + 1}, ${arm}: ${rate.toFixed(0)} changes a second, ${cpuMs.toFixed(3)} ms each${seen} (${load})`,
    );
  }
  const of = (arm: 'closed' | 'open', what: 'rate' | 'cpuMs'): number => median(figures[arm].map((each) => each[what]));
  const [closed, open] = [of('closed', 'rate'), of('open', 'rate')];
  print(
    `line, from the write to the run: median ${closed.toFixed(0)} changes a second with no page open, ` +
      `${open.toFixed(0)} with ${urls.length}: ratio ${(open / closed).toFixed(3)}; CPU of gateway and Redis for a ` +
      `change ${of('closed', 'cpuMs').toFixed(3)} and ${of('open', 'cpuMs').toFixed(3)} ms`,
  );
}

/** Ten pages that a team might keep open while the controller of the line is busy. */
function openUrls(url: string): string[] {
  const overview = `${url}/dashboard`;
  const stamper = `${overview}/controllers/stamper`;
  const busy = `${overview}/controllers/controller-0`;
  return [
    ...Array.from({ length: 4 }, () => overview),
    ...Array.from({ length: 3 }, () => stamper),
    busy,
    `${stamper}/runs`,
    `${stamper}/keys/${NAMESPACE}/object-7`,
  ];
}

function cpuOf({ gateway, redisPid }: FullGateway): number {
  return cpuSeconds(gateway.process.pid) + cpuSeconds(redisPid);
}

/** The share of one processor that a gateway uses. */
async function cpuOver({ process: { pid } }: Listening, ms: number): Promise<number> {
  const from = cpuSeconds(pid);
  await sleep(ms);
  return ((cpuSeconds(pid) - from) * 1000) / ms;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
