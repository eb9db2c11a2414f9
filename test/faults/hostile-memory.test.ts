import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { memoryOf } from '../../src/ground/redis/redis-memory.ts';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { type BulkObject, fields } from './hostile-tenant/bulk.ts';
import { SingleWrites } from './hostile-tenant/single-writes.ts';

/** Of Redis; a chart's Redis has 256. */
const LIMIT_MIB = Number(process.env['HOSTILE_MEMORY_MIB'] ?? 64);
const MIB = 2 ** 20;
const FUNCTIONS = 50;
const LEFT_OUT = /more than (its|their) share/;

describe(`a tenant that takes all the memory it can get of a Redis with ${LIMIT_MIB} MiB`, () => {
  const writes = SingleWrites.inThisFile();
  let usage: Usage;

  beforeEach(async () => {
    await writes.world.ground.admin.config('SET', 'maxmemory', LIMIT_MIB * MIB);
    usage = new Usage(() => writes.world.ground.admin.info('memory'));
    return () => usage.stop();
  });

  /** What cannot be compressed, with this many values in each of two indexes. */
  function large(bytes: number, values: number): BulkObject {
    const text = randomBytes((bytes * 3) / 4).toString('base64');
    const refs = (): string[] => Array.from({ length: values }, () => randomBytes(6).toString('hex'));
    return fields({ spec: fields({ text, refs: refs(), others: refs() }) });
  }

  async function expectNeverFull(): Promise<void> {
    usage.expectBelow(LIMIT_MIB);
    await writes.expectNoHarm();
    expect(writes.world.monitor.complaints().filter((each) => /of memory/.test(each))).toEqual([]);
  }

  const leftOutMetric = async (): Promise<string[]> =>
    (await (await fetch(`${writes.world.gateway.url}/metrics`)).text())
      .split('\n')
      .filter((line) => line.startsWith('levelhook_memory_left_out{'));

  test(
    'large objects, indexes and fifty functions never fill it, and what is left out says so',
    {
      timeout: 600_000,
    },
    async () => {
      const { world } = writes;
      const { apiVersion, kind } = world.kinds.things;
      const source = world.source('things');
      await writes.declare('first', {
        for: source,
        indexes: ['refs', 'others'].map((each) => fields({ apiVersion, kind, index: `field:spec.${each}` })),
      });
      // Their keys wait: what they take of the processors is not what counts here.
      for (let at = 1; at < FUNCTIONS; at += 1) {
        const more = [0, 1, 2, 3].map((nth) => fields({ apiVersion, kind, index: `field:spec.refs.n${at}-${nth}` }));
        await writes.declare(`function-${at}`, { for: source, indexes: more, paused: true });
      }
      await world.hostile.until(`function-${FUNCTIONS - 1}`, 'Synced', { status: 'True' }, 120_000);
      await writes.put('things', 'small', large(1000, 1));
      await eventually(async () => expect(world.fn.keys).toContain(`${world.hostile.namespace}/small`), 60_000);
      writes.beginWatch();
      // Twice the memory, in objects and entries.
      const count = Math.ceil((2 * LIMIT_MIB) / 1.4);
      for (let at = 0; at < count; at += 1) {
        await writes.put('things', `large-${at}`, large(MIB * 0.9, 500));
        await sleep(100);
      }
      // Its function hears of each object, whatever became of it in the cache.
      const last = `${world.hostile.namespace}/large-${count - 1}`;
      await eventually(async () => expect(world.fn.keys).toContain(last), 120_000);
      await expectNeverFull();
      await world.hostile.until('first', 'Synced', { message: expect.stringMatching(LEFT_OUT) as string });
      expect(await leftOutMetric()).toEqual([expect.stringContaining(`namespace="${world.hostile.namespace}"`)]);
      expect(world.gateway.process.lines).toContainEqual(
        expect.objectContaining({
          namespace: world.hostile.namespace,
          msg: expect.stringContaining('short of memory') as string,
        }),
      );

      // It is served as before once it has taken its objects away.
      await world.user.removeAll(world.kinds.reconcilefunctions, world.hostile.namespace);
      await world.user.removeAll(world.kinds.things, world.hostile.namespace);
      await eventually(async () => expect(await leftOutMetric()).toEqual([]), 60_000);
      await writes.declare('again', { for: source });
      await writes.put('things', 'after', large(1000, 1));
      await world.hostile.until('again', 'Synced', { status: 'True', reason: 'CacheComplete' });
      await expectNeverFull();
    },
  );

  test(
    'rules of related objects never fill it, and the conditions say what is not stored',
    {
      timeout: 600_000,
    },
    async () => {
      const { world } = writes;
      world.fn.behave(['other related objects each time']);
      writes.beginWatch();
      for (let at = 0; at < 5; at += 1) {
        await writes.declare(`relating-${at}`, {
          for: world.source('configmaps'),
          watches: [world.source('configmaps', { map: fields({ by: 'related' }) })],
          // It is the memory that counts here.
          queue: fields({ rateLimit: fields({ perSecond: 5, burst: 5 }) }),
          timeoutSeconds: 10,
        });
      }
      await writes.untilItRuns();
      // 0.4 MiB of rules for each of them, in each function.
      for (let at = 0; at < LIMIT_MIB; at += 1)
        await writes.put('configmaps', `key-${at}`, fields({ data: fields({}) }));
      await eventually(async () => expect(await leftOutMetric()).not.toEqual([]), 240_000, 500);
      for (let at = 0; at < 10; at += 1) {
        await writes.put('configmaps', `later-${at}`, fields({ data: fields({}) }));
        await sleep(300);
      }
      await eventually(async () => {
        const { message } = (await world.hostile.condition('relating-0', 'EventsHandled')) ?? {};
        expect(message).toMatch(LEFT_OUT);
      }, 60_000);
      await expectNeverFull();
      world.fn.behave(['done']);
    },
  );

  test('a declaration makes no index entry for objects that its tenant may not read', async () => {
    const { world } = writes;
    const index = 'field:data.text';
    await writes.declare('indexing', { for: world.source('configmaps'), indexes: [fields({ ...kindOf(), index })] });
    await writes.put('configmaps', 'own', fields({ data: fields({ text: 'a' }) }));
    const admin = world.ground.admin;
    const carrying = async (): Promise<string[]> => {
      const sets = (await admin.keys('*')).filter((key) => key.includes(`:index:${index}=`));
      return (await Promise.all(sets.map((key) => admin.smembers(key)))).flat();
    };
    await eventually(async () => expect(await carrying()).toContain(`${world.hostile.namespace}/own`));
    const { canary, namespace } = world.victim;
    await world.ground.cluster.create(configMaps, {
      metadata: { namespace, name: `text-${canary}` },
      data: { text: 'a' },
    });
    await writes.expectNoHarm();
    const others = (await carrying()).filter((key) => !key.startsWith(`${world.hostile.namespace}/`));
    expect(others).toEqual([]);
    await world.ground.cluster.delete(configMaps, { namespace, name: `text-${canary}` });
  });
});

const kindOf = (): { apiVersion: string; kind: string } => ({ apiVersion: 'v1', kind: 'ConfigMap' });

/** Looks all the time how much is used. */
class Usage {
  #most = 0;
  #told = '';
  #looks = 0;
  readonly #timer: NodeJS.Timeout;

  constructor(look: () => Promise<string>) {
    this.#timer = setInterval(() => void this.#add(look), 100);
  }

  async #add(look: () => Promise<string>): Promise<void> {
    const info = await look();
    const used = memoryOf(info).used / MIB;
    this.#looks += 1;
    if (used <= this.#most) return;
    this.#most = used;
    this.#told = (info.match(/^(used_memory_(dataset|vm_total|overhead)|mem_clients_normal):\d+/gm) ?? []).join(', ');
  }

  expectBelow(limit: number): void {
    expect(this.#looks).toBeGreaterThan(20);
    process.stdout.write(`hostile-memory: ${this.#most.toFixed(1)} of ${limit} MiB used at most: ${this.#told}\n`);
    expect(this.#most).toBeLessThan(limit * 0.95);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
