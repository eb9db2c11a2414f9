import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { newSeed } from '../harness/random.ts';
import { Started } from '../harness/started.ts';
import { fields } from './hostile-tenant/bulk.ts';
import { Campaign } from './hostile-tenant/campaign.ts';
import { expectNone } from './hostile-tenant/single-writes.ts';
import { Ground, World } from './hostile-tenant/world.ts';

/** How long a generated tenant acts: thirty minutes by `npm run soak hostile`. */
const SECONDS = Number(process.env['HOSTILE_SECONDS'] ?? 30);
/** A file of actions to do again, as a failed run has written it. */
const RECORDING = process.env['HOSTILE_ACTIONS'];
/** The watch over the victim allows for less on any machine. */
const FROZEN_MS = 8000;
/** How long what a deleted tenant had may stay: its longest run and the time after it. */
const LEFT_MS = 60_000;

const started = new Started();
let ground: Ground;

beforeAll(async () => {
  ground = await Ground.start(started);
}, 15 * 60_000);

afterAll(() => started.stop());

describe('a hostile tenant, generated', () => {
  const seed = newSeed();
  let world: World;

  beforeAll(async () => {
    process.stdout.write(`hostile tenant: TEST_SEED=${seed}\n`);
    world = await World.start(ground);
  });
  afterAll(() => world?.stop());

  test(
    `neither stops, slows nor reads another one, and nothing of it is left when it is deleted (TEST_SEED=${seed})`,
    { timeout: SECONDS * 1200 + 300_000 },
    async () => {
      const startedAtMs = Date.now();
      const campaign = new Campaign(world, { seconds: SECONDS, seed, recording: RECORDING });
      const { looked } = world.spy;
      const places = ['trigger', 'cache API', 'refused by the cache API', 'Redis'];
      const proxied = ['Kubernetes API', 'refused by the Kubernetes API'];
      const lookedAt = (all: readonly string[], times: number): boolean =>
        all.every((where) => (looked.get(where) ?? 0) > times);
      const isEnough = (): boolean =>
        Math.min(campaign.accepted, world.fn.count) > SECONDS / 2 && lookedAt(places, 20) && lookedAt(proxied, 3);
      const violations = await campaign.run(isEnough);
      const { findings } = world.violations(startedAtMs);
      process.stdout.write(
        `hostile tenant: ${campaign.lastedSeconds.toFixed()} s, ${campaign.actions} actions (${campaign.accepted} accepted), ${world.fn.count} triggers, ` +
          `${findings.seen} changes seen within ${findings.slowestMs} ms, ${findings.polls} polls of /livez within ` +
          `${findings.slowestPollMs} ms, ${findings.reviews} reviews, not ready for ${findings.notReadyMs} ms, ` +
          `processors slower by ${findings.slowdown.toFixed(1)} at most, ` +
          `later than the limits and explained by that: ${JSON.stringify(findings.excused.slice(0, 20))}; ` +
          `looked at ${JSON.stringify(Object.fromEntries(looked))}; ${JSON.stringify(Object.fromEntries(campaign.conditions))}; ` +
          `${JSON.stringify(Object.fromEntries(world.replies))}; ${world.fn.reviews} reviews, ` +
          `callbacks ${JSON.stringify(Object.fromEntries(world.fn.calledBack))}, ` +
          `commands of over 20 ms ${JSON.stringify(world.slowestCommands())}, ` +
          `${Math.round(world.mostMemory * 100)} % of Redis' memory at most\n`,
      );
      await expectNone(violations, () => campaign.report());
      if (RECORDING === undefined) expect(campaign.lastedSeconds).toBeGreaterThanOrEqual(SECONDS);
      await eventually(async () => {
        const { reviews, seen, polls } = world.violations(startedAtMs).findings;
        expect(reviews).toBeGreaterThan(SECONDS / 2);
        expect(seen).toBeGreaterThan(SECONDS * 4);
        expect(polls).toBeGreaterThan(SECONDS * 2);
      });

      await world.deleteHostile();
      const noneLeft = async (): Promise<void> => {
        const left = await world.leftovers();
        expect(left, left.slice(0, 6).join('; ')).toEqual([]);
      };
      await eventually(noneLeft, LEFT_MS, 2000);
      // What a standstill explains is known a moment later.
      await eventually(
        async () => {
          const { violations: afterwards } = world.violations(startedAtMs);
          await expectNone(afterwards, () => campaign.report());
        },
        3000,
        500,
      );
    },
  );
});

describe('the watch over the victim', () => {
  let world: World;

  beforeAll(async () => {
    world = await World.start(ground);
  });
  afterAll(() => world?.stop());

  test('finds what was leaked, in each place where a tenant can look', { timeout: 300_000 }, async () => {
    const { canary } = world.victim;
    const { apiVersion, kind } = world.kinds.things;
    // A token ends with its run.
    world.fn.behave(['never']);
    await world.declare('reading', { for: fields({ apiVersion, kind }) });
    // An object of the tenant's own stands for one that it should not see.
    await world.put('things', canary, fields({ metadata: fields({ annotations: fields({ canary }) }) }));
    await eventually(async () => {
      await world.spy.readAll();
      for (const where of ['trigger', 'cache API', 'Redis', 'things of its namespace']) {
        expect(world.spy.leaks).toContainEqual(expect.objectContaining({ where: expect.stringMatching(`^${where}`) }));
      }
    });
  });

  test('finds what is left of a tenant', async () => {
    const left = await world.leftovers();
    for (const place of ['key', 'field', 'Redis user', 'series']) {
      expect(left, place).toContainEqual(expect.stringContaining(`the ${place} `));
    }
    const { admin } = ground;
    const history = (controller: string): string => `{left:queue:${controller}}:history:${world.hostile.namespace}/x`;
    const [others, own] = [history('operator'), history(`${world.hostile.namespace}.own`)];
    await Promise.all([others, own].map((key) => admin.rpush(key, 'x')));
    const found = async (): Promise<boolean[]> => {
      const all = await world.leftovers();
      return [others, own].map((key) => all.includes(`the key ${key}`));
    };
    expect(await found(), 'without an end').toEqual([true, true]);
    await Promise.all([others, own].map((key) => admin.pexpire(key, 3_000_000)));
    expect(await found(), 'the log of a controller that is there, with an end').toEqual([false, true]);
    await admin.del(others, own);
  });

  test('finds wakeups and answers that come late, and a gateway that has ended', { timeout: 300_000 }, async () => {
    await eventually(async () => expect(world.violations().findings.violations).toEqual([]), 3000, 500);
    const { process } = world.gateway;
    process.send('SIGSTOP');
    await sleep(FROZEN_MS);
    process.send('SIGCONT');
    await eventually(async () => {
      const { violations } = world.violations().findings;
      for (const late of [
        /^wakeup of healthy: v1\/ConfigMap .* was seen after/,
        /^wakeup of operator: v1\/Pod .* was seen after/,
        // Meanwhile the gateway's idle connection times out, and then the poll on it fails.
        /^livez: answered (200|fetch failed.*) after \d{4,} ms/,
      ]) {
        expect(violations).toContainEqual(expect.stringMatching(late));
      }
    });
    await process.kill('SIGKILL');
    expect(world.violations().findings.violations).toContain('exit: the gateway has ended');
  });
});
