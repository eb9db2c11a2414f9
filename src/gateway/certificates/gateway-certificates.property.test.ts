import { expect, it } from 'vitest';
import { memoryClient } from '../../../test/harness/memory-client.ts';
import { newSeed, randomOf } from '../../../test/harness/random.ts';
import { RotationWorld } from '../../../test/harness/rotation-world.ts';

const HISTORIES = 3;
const EVENTS = 1500;

/**
 * Gateways that all may take themselves for the leader, whose requests are late, get lost and cross, and that are
 * killed between any two requests. After each event, each bundle that the apiserver may still use has the authority of
 * each certificate that a gateway serves.
 */
it('no bundle ever lacks the authority of a served certificate, whatever dies when', async () => {
  const seed = newSeed();
  let rotations = 0;
  let kills = 0;
  for (let history = 0; history < HISTORIES; history += 1) {
    const world = new RotationWorld(randomOf(seed + history), memoryClient);
    await world.run(EVENTS).catch((error: unknown) => {
      throw new Error(`with TEST_SEED=${seed}, history ${history}`, { cause: error });
    });
    rotations += world.rotations;
    kills += world.kills;
  }
  expect(rotations, `TEST_SEED=${seed}`).toBeGreaterThanOrEqual(HISTORIES);
  expect(kills, `TEST_SEED=${seed}`).toBeGreaterThan(HISTORIES * 5);
});
