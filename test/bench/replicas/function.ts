import { setTimeout as sleep } from 'node:timers/promises';
import { controller } from 'levelhook/function';
import { requiredVariable, serveController } from 'levelhook/function/node';
import { configMaps } from '../../harness/cluster.ts';
import { machineMs } from '../../harness/machine-clock.ts';

const namespace = requiredVariable(process.env, 'BENCH_NAMESPACE');
const objects = Number(requiredVariable(process.env, 'BENCH_OBJECTS'));
const seen = new Set<string>();

/** Waits 50 ms in each run, and writes a line when it has run each object once more. */
await serveController(
  controller({
    name: 'waiter',
    for: { resource: configMaps, namespaces: [namespace] },
    concurrency: Number(requiredVariable(process.env, 'BENCH_CONCURRENCY')),
  }).reconcile(async ({ name }) => {
    await sleep(50);
    seen.add(name);
    if (seen.size < objects) return;
    seen.clear();
    process.stdout.write(`${JSON.stringify({ msg: 'all', atMs: machineMs() })}\n`);
  }),
);
