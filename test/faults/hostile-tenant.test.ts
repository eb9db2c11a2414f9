import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { newSeed } from '../harness/random.ts';
import { Started } from '../harness/started.ts';
import type { Written } from './hostile-tenant/actions.ts';
import { type Bulk, type BulkObject, fields } from './hostile-tenant/bulk.ts';
import { Campaign } from './hostile-tenant/campaign.ts';
import { Ground, World } from './hostile-tenant/world.ts';

/** How long a generated tenant acts: ten minutes by `npm run soak hostile`. */
const SECONDS = Number(process.env['HOSTILE_SECONDS'] ?? 30);
/** Whether the tests with tens of megabytes run, which take minutes: `npm run test:nightly large-objects`. */
const IS_LARGE = process.env['HOSTILE_LARGE'] !== undefined;
/** A file of actions to do again, as a failed run has written it. */
const RECORDING = process.env['HOSTILE_ACTIONS'];
/** Longer than the watch over the victim allows for on any machine. */
const FROZEN_MS = 12_000;
/** How long what a deleted tenant had may stay: its longest run and the time after it. */
const LEFT_MS = 60_000;

const started = new Started();
let ground: Ground;

beforeAll(async () => {
  ground = await Ground.start(started);
}, 15 * 60_000);

afterAll(() => started.stop());

/** Of many violations the first ones, and how many there are. */
function summary(violations: readonly string[], most = 6): string[] {
  if (violations.length <= most) return [...violations];
  return [...violations.slice(0, most), `… ${violations.length} in all`];
}

describe('what a tenant may write in its own namespace, one thing at a time', () => {
  /** How long the victim is watched after it. */
  const WATCH_MS = 4000;
  let world: World | undefined;
  let startedAtMs = 0;

  beforeEach(async () => {
    // The same as long as nothing has hurt it.
    world ??= await World.start(ground);
    startedAtMs = Date.now();
  });

  afterEach(async () => {
    if (!world) return;
    const isHurt = world.violations(startedAtMs).violations.length > 0;
    for (const what of ['reconcilefunctions', 'configmaps', 'pods', 'things'] as Written[]) {
      await world.user.removeAll(world.kinds[what], world.hostile.namespace);
    }
    if (!isHurt) return;
    await world.stop();
    world = undefined;
  });

  afterAll(() => world?.stop());

  const here = (): World => {
    if (!world) throw new Error('there is no world');
    return world;
  };

  /** The apiserver accepts it: else there would be no danger, and no test. */
  async function put(what: Written, name: string, object: BulkObject): Promise<void> {
    const { status, text } = await here().put(what, name, object);
    expect(status, text).toBeLessThan(300);
  }

  async function declare(name: string, spec: Readonly<Record<string, Bulk>>): Promise<void> {
    const { status, text } = await here().declare(name, spec);
    expect(status, text).toBeLessThan(300);
  }

  /** Its function is sent triggers: it runs as far as it can. */
  async function untilItRuns(): Promise<void> {
    const before = here().fn.count;
    await eventually(
      async () => {
        const text = String(Date.now());
        await put('configmaps', 'touched', fields({ data: fields({ text }) }));
        expect(here().fn.count).toBeGreaterThan(before);
      },
      60_000,
      500,
    );
  }

  async function expectNoHarm(): Promise<void> {
    await sleep(WATCH_MS);
    const { violations, findings } = here().violations(startedAtMs);
    expect(summary(violations), here().evidence()).toEqual([]);
    expect(findings.seen).toBeGreaterThan(WATCH_MS / 500);
    expect(findings.polls).toBeGreaterThan(WATCH_MS / 1000);
  }

  const ownerNamed = (name: string): BulkObject =>
    fields({
      metadata: fields({
        ownerReferences: [fields({ apiVersion: 'v1', kind: 'ConfigMap', name, uid: 'x', controller: true })],
      }),
      spec: fields({ containers: [fields({ name: 'main', image: 'pause' })] }),
    });

  test('an owner reference whose name holds a slash stops no other wakeup', async () => {
    await declare('owning', { for: here().source('configmaps'), owns: [here().source('pods')] });
    await untilItRuns();
    await put('pods', 'owned', ownerNamed('a/b'));
    await expectNoHarm();
  });

  test('an apiVersion that climbs out of its group shows nothing of other groups', async () => {
    const apiVersion = `${here().group}/../../api/v1`;
    const climbing = ['ConfigMap', 'Pod', 'Secret'].map((kind) => fields({ apiVersion, kind }));
    for (const [at, kind] of climbing.entries()) await here().declare(`climbing-${at}`, { for: kind, reads: climbing });
    await sleep(4000);
    await here().spy.readAll();
    await expectNoHarm();
  });

  test.each(['label', 'annotation'])('a map by an inherited %s stops no informer', async (by) => {
    // `__proto__` is no key of a label: the definition of the resource refuses it.
    for (const [at, name] of ['constructor', 'hasOwnProperty', 'toString'].entries()) {
      const watched = here().source('configmaps', { map: fields({ by, [by]: name }) });
      await declare(`inheriting-${at}`, { for: here().source('configmaps'), watches: [watched] });
    }
    await untilItRuns();
    await put('configmaps', 'labelled', fields({ metadata: fields({ annotations: fields({ some: 'annotation' }) }) }));
    await expectNoHarm();
  });

  test('an object whose selector is none stops no other wakeup', async () => {
    const watched = here().source('configmaps', { map: fields({ by: 'selector', path: 'spec.selector' }) });
    await declare('selecting', { for: here().source('things'), watches: [watched] });
    const selector = fields({ matchExpressions: 5, other: fields({}) });
    await put('things', 'selector', fields({ spec: fields({ selector }) }));
    await untilItRuns();
    await put('configmaps', 'selected', fields({ data: fields({ text: 'a' }) }));
    await expectNoHarm();
  });

  test('expressions that loop in loops in loops take no more time for being many', async () => {
    const numbers = `[${Array.from({ length: 60 }, (_, at) => at).join()}]`;
    const cel = `${numbers}.all(a, ${numbers}.all(b, ${numbers}.all(c, a + b + c >= 0)))`;
    const watched = here().source('configmaps', {
      predicate: fields({ cel }),
      map: fields({ by: 'cel', expression: `${cel} ? ['a'] : ['b']` }),
    });
    await declare('looping', { for: here().source('configmaps'), watches: Array.from({ length: 16 }, () => watched) });
    await sleep(2000);
    for (let at = 0; at < 10; at += 1) {
      await put('configmaps', 'watched', fields({ data: fields({ at: String(at) }) }));
      await sleep(1000);
    }
    await expectNoHarm();
  });

  if (IS_LARGE) {
    test('lookups among many large objects delay no other tenant', { timeout: 300_000 }, async () => {
      // 40 MB, which a lookup decodes for each change of other labels.
      for (let at = 0; at < 40; at += 1) {
        await put('things', `large-${at}`, fields({ spec: fields({ many: { keys: 60_000, value: 'x' } }) }));
      }
      const before = here().fn.count;
      for (let at = 0; at < 8; at += 1) {
        const watched = here().source('configmaps', { map: fields({ by: 'selector', path: `spec.selector.${at}` }) });
        await declare(`looking-${at}`, { for: here().source('things'), watches: [watched] });
      }
      for (let at = 0; at < 8; at += 1) await here().hostile.until(`looking-${at}`, 'Ready', { status: 'True' });
      await eventually(async () => expect(here().fn.count).toBeGreaterThan(before));
      // The first read of the objects takes long, and the next test looks at it.
      await sleep(3000);
      startedAtMs = Date.now();
      const harm = expectNoHarm();
      for (let round = 0; Date.now() - startedAtMs < WATCH_MS; round += 1) {
        await put('configmaps', 'labelled', fields({ metadata: fields({ labels: fields({ round: String(round) }) }) }));
        await sleep(50);
      }
      await harm;
    });

    test(
      'large objects delay no other tenant while they are read for the first time',
      { timeout: 300_000 },
      async () => {
        const { apiVersion, kind } = here().kinds.things;
        // 24 MB that nothing has asked for yet. A list costs the apiserver less than as many fields, and the gateway as
        // much.
        for (let at = 0; at < 24; at += 1) {
          const many = { items: fields({ a: 0 }), times: 150_000 };
          await put('things', `large-${at}`, fields({ spec: fields({ many }) }));
        }
        startedAtMs = Date.now();
        for (let at = 0; at < 8; at += 1) {
          const indexes = [fields({ apiVersion, kind, index: `field:spec.many.key-${at}` })];
          const labelSelector = fields({ matchExpressions: [fields({ key: 'absent', operator: 'DoesNotExist' })] });
          await declare(`reading-${at}`, { for: here().source('things', { labelSelector }), indexes });
        }
        for (let at = 0; at < 8; at += 1) {
          await here().hostile.until(`reading-${at}`, 'Ready', { status: 'True' });
        }
        await expectNoHarm();
      },
    );
  }

  test('an object that is nested thousands of levels deep stops neither its own view nor another', async () => {
    const { apiVersion, kind } = here().kinds.things;
    await declare('deep', {
      for: here().source('things'),
      watches: [here().source('configmaps', { map: fields({ by: 'all' }) })],
      indexes: [fields({ apiVersion, kind, index: 'field:spec.a.a' })],
    });
    await put('things', 'flat', fields({ spec: fields({ a: fields({ a: 'x' }) }) }));
    await untilItRuns();
    for (const levels of [5000, 9000]) {
      for (const nested of ['list', 'object'] as const) {
        const value = { nested, levels, value: 'x' };
        await put('things', `${nested}-${levels}`, fields({ spec: fields({ a: value }) }));
      }
    }
    await put('things', 'last', fields({ spec: fields({ a: fields({ a: 'x' }) }) }));
    await eventually(async () => expect(here().fn.keys).toContain(`${here().hostile.namespace}/last`));
    await expectNoHarm();
  });
});

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
    { timeout: SECONDS * 1000 + 300_000 },
    async () => {
      const startedAtMs = Date.now();
      const campaign = new Campaign(world, { seconds: SECONDS, seed, recording: RECORDING });
      const violations = await campaign.run();
      const { findings } = world.violations(startedAtMs);
      const { looked } = world.spy;
      process.stdout.write(
        `hostile tenant: ${campaign.actions} actions (${campaign.accepted} accepted), ${world.fn.count} triggers, ` +
          `${findings.seen} changes seen within ${findings.slowestMs} ms, ${findings.polls} polls of /livez within ` +
          `${findings.slowestPollMs} ms, not ready for ${findings.notReadyMs} ms, ` +
          `processors slower by ${findings.slowdown.toFixed(1)} at most; ` +
          `looked at ${JSON.stringify(Object.fromEntries(looked))}; ${JSON.stringify(Object.fromEntries(campaign.conditions))}; ` +
          `${JSON.stringify(Object.fromEntries(world.replies))}\n`,
      );
      if (violations.length > 0) expect(summary(violations), await campaign.report()).toEqual([]);
      // Enough was tried, and enough was compared.
      if (RECORDING === undefined) {
        expect(campaign.accepted).toBeGreaterThan(SECONDS / 2);
        expect(world.fn.count).toBeGreaterThan(SECONDS / 2);
        for (const where of ['trigger', 'cache API', 'refused by the cache API', 'Redis']) {
          expect(looked.get(where), where).toBeGreaterThan(20);
        }
      }
      expect(findings.seen).toBeGreaterThan(SECONDS * 4);
      expect(findings.polls).toBeGreaterThan(SECONDS * 2);

      await world.deleteHostile();
      await eventually(async () => expect(await world.leftovers()).toEqual([]), LEFT_MS, 2000);
      const { violations: afterwards } = world.violations(startedAtMs);
      expect(summary(afterwards), await campaign.report()).toEqual([]);
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
  });

  test('finds wakeups and answers that come late, and a gateway that has ended', { timeout: 300_000 }, async () => {
    expect(world.violations().findings.violations).toEqual([]);
    const { process } = world.gateway;
    process.send('SIGSTOP');
    await sleep(FROZEN_MS);
    process.send('SIGCONT');
    await eventually(async () => {
      const { violations } = world.violations().findings;
      for (const late of [
        /^wakeup of healthy: v1\/ConfigMap .* was seen after/,
        /^wakeup of operator: v1\/Pod .* was seen after/,
        // A connection that was idle for so long is closed before the poll on it is read.
        /^livez: answered (200|fetch failed.*) after \d{4,} ms/,
      ]) {
        expect(violations).toContainEqual(expect.stringMatching(late));
      }
    });
    await process.kill('SIGKILL');
    expect(world.violations().findings.violations).toContain('exit: the gateway has ended');
  });
});
