import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { FaultWorld, type FaultWorldOptions } from '../../harness/fault-world.ts';
import { untilIdle, untilReady } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

/** How often each row is done. */
const ROUNDS = Number(process.env['REDIS_FAULTS_ROUNDS'] ?? 1);

/** A world, and the Redis below it. */
export interface Scene<R> {
  readonly world: FaultWorld;
  readonly redis: R;
  readonly started: Started;
}

/** Does a fault while objects change. Returns further checks, which the table makes after `untilAllIsWell`. */
export type Fault<R> = (scene: Scene<R>) => Promise<(() => Promise<void>) | undefined>;

/** Faults that leave the world as it was, and so share one. */
export interface Table<R> {
  readonly start: (started: Started) => Promise<{ redis: R; options: Omit<FaultWorldOptions, 'kubeconfig'> }>;
  /** By the end of the sentence that begins with the table's name. */
  readonly rows: Readonly<Record<string, Fault<R>>>;
}

/** Runs take long enough that two runs of one key would overlap and be seen. */
export const observer = { delayMs: 200, concurrency: 30 };

/**
 * Gives this file a control plane of its own: nothing else changes ConfigMaps while cache and server are compared.
 *
 * @returns adds a table to the file.
 */
export function faultTables(): <R>(name: string, table: Table<R>) => void {
  let plane: ControlPlane;
  beforeAll(async () => {
    plane = await startControlPlane();
  });
  afterAll(() => plane?.stop());
  return (name, table) => loseNoChange(name, table, () => plane);
}

function loseNoChange<R>(name: string, { start, rows }: Table<R>, plane: () => ControlPlane): void {
  describe(name, () => {
    const started = new Started();
    let scene: Scene<R>;

    beforeAll(async () => {
      const { redis, options } = await start(started);
      const world = await FaultWorld.start(started, name, { alone: true, kubeconfig: plane().kubeconfig, ...options });
      scene = { world, redis, started };
      await world.untilAllIsWell();
    });

    afterAll(() => started.stop());

    for (const [what, fault] of Object.entries(rows)) {
      it.for(Array.from({ length: ROUNDS }, (_, at) => at + 1))(
        `loses no change when ${what} (round %i)`,
        { timeout: 300_000 },
        async () => {
          const { world } = scene;
          const checks: Awaited<ReturnType<Fault<R>>>[] = [];
          await world.underChanges(async () => {
            await sleep(world.random.below(1000));
            checks.push(await fault(scene));
          });
          await world.untilAllIsWell();
          for (const check of checks) await check?.();
        },
      );
    }

    it('lets its gateways stop in order after the faults', async () => {
      const { world } = scene;
      const { gateways } = world;
      for (const { url } of gateways) await untilIdle(url);
      const outputs = gateways.map(({ process }) => process);
      await world.stopInOrder();
      for (const { output } of outputs) expect(output).not.toMatch(/CROSSSLOT|same slot|same node|\[ioredis\]/i);
    });
  });
}

/** Until a fault that replaces a master is repaired, and each gateway runs keys on the new one. */
export async function failOver({ world }: Scene<unknown>, fault: () => Promise<void>): Promise<void> {
  const before = await world.sum('levelhook_recoveries_total');
  await fault();
  await eventually(async () => expect(await world.sum('levelhook_recoveries_total')).toBeGreaterThan(before));
  for (const { url } of world.gateways) await untilReady(url);
}
