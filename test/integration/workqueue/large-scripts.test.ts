import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { HandlerError } from '../../../src/gateway/informer/cache/change.ts';
import { unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import { connectRedis, loadScript, type Redis } from '../../../src/ground/redis/redis.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { expectShortScripts } from '../../harness/slow-commands.ts';

/** Keys that one tenant can have. */
const KEYS = 100_000;

let server: RedisServer;
let admin: Redis;
let fixture: RedisQueueFixture;

beforeEach(async () => {
  // Of its own: the scripts of others must not stand in its log.
  server = await startRedis({ ignoreEnvironment: true });
  admin = await connectRedis(server.url);
  fixture = await RedisQueueFixture.create(server.url, systemClock);
});

afterEach(async () => {
  await fixture.close();
  admin.disconnect();
  await server.stop();
});

async function fill(set: string, member: (at: number) => string, score = (at: number) => at): Promise<void> {
  for (let from = 0; from < KEYS; from += 1000) {
    await admin.zadd(set, ...Array.from({ length: 1000 }, (_, at) => [score(from + at), member(from + at)]).flat());
  }
}

describe('a tenant with a hundred thousand keys', () => {
  it('has its keys weighed in a short script', async () => {
    const queue = await fixture.open();
    const { histories, timers } = fixture.keys;
    await fill(timers, (at) => `a/key-${at}`);
    await fill(histories, (at) => `a/key-${at}`);
    await expectShortScripts(admin, async () => {
      expect(await queue.inspector.weigh()).toBeGreaterThan(KEYS * 200);
    });
  });

  it('has its levels read at the cost of a queue without pauses, however many objects and keys are paused', async () => {
    const queue = await fixture.open();
    const { pauses, pausedPrefix } = fixture.keys;
    const commandsOf = async (read: () => Promise<unknown>): Promise<number> => {
      const count = async (): Promise<number> =>
        [...(await admin.info('commandstats')).matchAll(/calls=(\d+)/g)].reduce(
          (sum, [, calls]) => sum + Number(calls),
          0,
        );
      const before = await count();
      await read();
      return (await count()) - before;
    };
    await queue.pause('controller');
    await queue.pause('key/a/by-hand');
    const few = await commandsOf(() => queue.inspector.levels());
    for (let from = 0; from < KEYS; from += 1000) {
      await admin.hset(pauses, ...Array.from({ length: 1000 }, (_, at) => [`object/a/key-${from + at}`, 1]).flat());
    }
    await fill(`${pausedPrefix}object`, (at) => `a/key-${at}`);
    await expectShortScripts(admin, async () => {
      expect(await queue.inspector.levels()).toMatchObject({
        pauses: [{ scope: 'controller' }, { scope: 'key/a/by-hand' }],
        morePauses: 0,
        pausedObjects: KEYS,
        sizes: { waiting: KEYS },
      });
      expect((await queue.inspector.list('waiting', { offset: KEYS - 1, limit: 5 })).keys).toHaveLength(1);
    });
    expect(await commandsOf(() => queue.inspector.levels())).toBeLessThanOrEqual(few);
    for (let from = 0; from < 2000; from += 1) await queue.pause(`namespace/n${from}`);
    await expectShortScripts(admin, async () => {
      const levels = await queue.inspector.levels();
      expect([levels.pauses.length, levels.morePauses, levels.pausedObjects]).toEqual([100, 1902, KEYS]);
    });
    const scopes = new Set<string>();
    let after: string | undefined;
    do {
      const page = await queue.inspector.pauses(after);
      expect(page.pauses.length).toBeLessThan(2000);
      for (const { scope } of page.pauses) scopes.add(scope);
      after = page.next;
    } while (after !== undefined);
    expect(scopes.size).toBe(KEYS + 2002);
  });

  it('has its keys weighed in a short script, also those that a pause of their object or namespace keeps', async () => {
    const queue = await fixture.open();
    const { pauses, pausedPrefix } = fixture.keys;
    await queue.pause('namespace/b');
    await fill(`${pausedPrefix}namespace/b`, (at) => `b/key-${at}`);
    const weight = await queue.inspector.weigh();
    expect(weight).toBeGreaterThan(KEYS * 200);
    for (let from = 0; from < KEYS; from += 1000) {
      await admin.hset(pauses, ...Array.from({ length: 1000 }, (_, at) => [`object/a/key-${from + at}`, 1]).flat());
    }
    await fill(`${pausedPrefix}object`, (at) => `a/key-${at}`);
    await expectShortScripts(admin, async () => {
      expect(await queue.inspector.weigh()).toBeGreaterThan(weight + KEYS * 250);
    });
  });

  it('ends a pause in scripts of few keys, all of them and in their order', async () => {
    const queue = await fixture.open();
    const { backlog, pausedPrefix } = fixture.keys;
    const prepare = async (): Promise<void> => {
      await admin.del(backlog);
      await fill(`${pausedPrefix}controller`, (at) => `a/key-${at}`);
      await queue.pause('controller');
    };
    await expectShortScripts(admin, () => queue.resume('controller'), prepare);
    expect(await admin.zcard(backlog)).toBe(KEYS);
    expect(await admin.zrange(backlog, '0', '2')).toEqual(['a/key-0', 'a/key-1', 'a/key-2']);
    expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
  });

  it('has the rest of a pause ended by another gateway, if the one that ends it is killed', async () => {
    const queue = await fixture.open();
    const paused = `${fixture.keys.pausedPrefix}controller`;
    await fill(paused, (at) => `a/key-${at}`);
    await queue.pause('controller');
    // All that it has done.
    const resume = loadScript(
      admin,
      import.meta.resolve('../../../src/gateway/controller/workqueue/records/redis-records.ts'),
      'resume',
    );
    expect(await resume(fixture.keys.script, ['controller', '', 500])).toEqual([KEYS - 500, 1]);
    expect(await queue.inspector.pauses()).toEqual({ pauses: [] });
    const process = new RecordingProcess();
    process.onRun = () => new Promise(() => {});
    await queue.start(process);
    await eventually(async () => expect(await admin.zcard(paused)).toBe(0));
  });

  it('looks up the keys that have named an object without a script that reads them all, as far as their controller can pay', async () => {
    const queue = await fixture.open();
    const { relatedIndex } = fixture.keys;
    await fill(
      relatedIndex,
      (at) => `v1/ConfigMap\na\nx\na/key-${at}`,
      () => 0,
    );
    let found: readonly string[] = [];
    const change = { kind: 'v1/ConfigMap', namespace: 'a', name: 'x' };
    const look = async (): Promise<void> => void (found = await queue.relatedRules.keysOf(change));
    await expectShortScripts(admin, look);
    expect(new Set(found).size).toBe(KEYS);
    let paid = 0;
    const chargeKeys = (count: number, before: number): void => {
      expect(before).toBe(paid);
      if (paid >= 1000) throw new HandlerError('no time left');
      paid += count;
    };
    await expect(queue.relatedRules.keysOf(change, { ...unlimitedLookups, chargeKeys })).rejects.toThrow(HandlerError);
    expect(paid).toBe(1000);
  });

  it('pays for the names that its rules keep, which the script looks at, and for those that change', async () => {
    const queue = await fixture.open();
    await admin.hset(`${fixture.keys.recordPrefix}a/key`, 'run', 1);
    const costOf = async (names: readonly string[]): Promise<number> =>
      (await queue.relatedRules.replace({ key: 'a/key', run: 1 }, [{ apiVersion: 'v1', kind: 'ConfigMap', names }]))
        .cost;
    const names = Array.from({ length: 1000 }, (_, at) => `x${at}`);
    expect(await costOf(names)).toBe(1250);
    expect(await costOf(names)).toBe(0);
    expect(await costOf(['y', ...names.slice(1)])).toBe(502);
    expect(await costOf([])).toBe(1250);
  });
});
