import { availableParallelism } from 'node:os';
import { startControlPlane } from '../../src/testing/index.ts';
import { Cluster } from '../harness/cluster.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import { Comparison, type Figures } from './comparison.ts';
import { type ArmName, arms } from './line/arms.ts';
import {
  createObjects,
  deleteObjects,
  measureBurst,
  measureFirst,
  measureIdle,
  measureLone,
  measureRate,
  measureWrites,
} from './line/parts.ts';
import { lineRows } from './line/rows.ts';
import { formatLoad } from './machine-load.ts';
import { isSaving, showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * Compares levelhook with other ways to write the same controller, in turn in one run, with all processes on this
 * machine: `npm run bench line`. `BENCH_OBJECTS`, `BENCH_ROUNDS` and `BENCH_SECONDS` make it smaller, `BENCH_ARMS` and
 * `BENCH_PARTS` choose, `BENCH_CONCURRENCY` is that of all arms, `BENCH_BATCH` lets levelhook's function take so many
 * keys at a time, and `-- --save` writes the results into the repository.
 */
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 10_000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 10);
const CONCURRENCY = Number(process.env['BENCH_CONCURRENCY'] ?? 50);
const START_OBJECTS = 100;
const PARTS = ['start', 'lone', 'burst', 'rate', 'write'] as const;
type Part = (typeof PARTS)[number];

const armNames = chosen('BENCH_ARMS', Object.keys(arms) as ArmName[]);
const parts = chosen('BENCH_PARTS', PARTS);
const found = new Comparison(armNames, lineRows(OBJECTS.toLocaleString('en')), {
  subject: 'levelhook',
  to: ['prototype', 'controller-runtime'],
});

if (isSaving && (armNames.length < Object.keys(arms).length || parts.length < PARTS.length)) {
  throw new Error('--save writes RESULTS.md, which shows all arms and parts: leave out BENCH_ARMS and BENCH_PARTS');
}
const say = (line: string): boolean => process.stderr.write(`${line}\n`);
const started = new Started();
stopAtSignal(started);
try {
  const plane = await startControlPlane({ onProgress: say });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let at = 0; at < armNames.length; at += 1) {
      const name = armNames[(at + round) % armNames.length];
      if (!name) continue;
      const figures: Record<string, number> = {};
      const add = (part: Part, measured: Figures): void => {
        for (const [key, value] of Object.entries(measured)) figures[`${part}.${key}`] = value;
        say(`round ${round + 1}, ${name}, ${part}: ${summary(measured)}`);
      };
      if (parts.includes('start') || parts.includes('lone')) await measureStart(name, plane.kubeconfig, cluster, add);
      await measureLoad(name, plane.kubeconfig, cluster, add);
      found.add(name, figures);
    }
  }
} finally {
  await started.stop();
}
const what =
  `${OBJECTS.toLocaleString('en')} ConfigMaps of 2 KB, ${CONCURRENCY} runs at a time, medians of ${ROUNDS} rounds, ` +
  `Node ${process.versions.node}, ${availableParallelism()} processors.`;
await showResults('line', 'One controller, written in four ways', what, found);

/** A start on a cluster of 100 objects, and single changes of these objects. */
async function measureStart(
  name: ArmName,
  kubeconfig: string,
  cluster: Cluster,
  add: (part: Part, measured: Figures) => void,
): Promise<void> {
  const objects = { cluster, namespace: uniqueName('start'), count: START_OBJECTS };
  await cluster.createNamespace(objects.namespace);
  await createObjects(objects);
  const load = { kubeconfig, namespace: objects.namespace, objects: START_OBJECTS, concurrency: CONCURRENCY };
  await withProcesses(async (processes) => {
    const arm = await arms[name](processes, load);
    add('start', { ...(await measureFirst(arm)), ...(await measureIdle(arm)) });
    if (parts.includes('lone')) add('lone', await measureLone(arm, objects));
  });
  await deleteObjects(objects);
}

async function measureLoad(
  name: ArmName,
  kubeconfig: string,
  cluster: Cluster,
  add: (part: Part, measured: Figures) => void,
): Promise<void> {
  if (!parts.some((part) => part !== 'start' && part !== 'lone')) return;
  const objects = { cluster, namespace: uniqueName('line'), count: OBJECTS };
  await cluster.createNamespace(objects.namespace);
  await createObjects(objects);
  await withProcesses(async (processes) => {
    const load = { kubeconfig, namespace: objects.namespace, objects: OBJECTS, concurrency: CONCURRENCY };
    const arm = await arms[name](processes, load);
    // The other parts begin with it, so it is always there.
    add('burst', await measureBurst(arm, OBJECTS));
    if (parts.includes('rate')) {
      add('rate', await measureRate(arm, objects, { perSecond: 100, warmUpSeconds: SECONDS / 2, seconds: SECONDS }));
    }
    if (parts.includes('write')) add('write', await measureWrites(arm, objects));
  });
  await deleteObjects(objects);
}

/** Every process that `work` starts has ended when this returns, however it does. */
async function withProcesses(work: (processes: Started) => Promise<void>): Promise<void> {
  const processes = new Started();
  started.add(() => processes.stop());
  try {
    await work(processes);
  } finally {
    await processes.stop();
  }
}

function summary({ stolen, foreign, ...others }: Figures): string {
  const words = Object.entries(others).map(([name, value]) => `${name} ${value.toFixed(2)}`);
  if (stolen !== undefined && foreign !== undefined) words.push(formatLoad({ stolen, foreign }));
  return words.join(', ');
}

/** What a variable chooses, with commas between; all when it is not set. */
function chosen<T extends string>(variable: string, all: readonly T[]): readonly T[] {
  const words = process.env[variable]?.split(',') ?? all;
  const unknown = words.filter((word) => !(all as readonly string[]).includes(word));
  if (unknown.length > 0) throw new Error(`${variable}: ${unknown.join(', ')} is none of ${all.join(', ')}`);
  return all.filter((each) => words.includes(each));
}
