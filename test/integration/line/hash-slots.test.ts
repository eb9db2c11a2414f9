import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { ConfigMapChanges } from '../../harness/config-map-changes.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { configMapsOf, type Observer, startObservers } from '../../harness/observer.ts';
import { seededRandom } from '../../harness/seeded-random.ts';
import { Started } from '../../harness/started.ts';

/** One command as MONITOR shows it. */
interface Sent {
  readonly args: readonly string[];
  /** `lua` for the commands of a script, which follow its EVALSHA at once; else the address of the client. */
  readonly source: string;
}

/** What a Redis Cluster hashes of a key: keys with the same have one slot. */
function hashed(key: string): string {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;
}

describe('the commands of a busy gateway, as a Redis Cluster would get them', () => {
  const started = new Started();
  const namespace = uniqueName('slots');
  const sent: Sent[] = [];
  let server: RedisServer;
  let cluster: Cluster;
  let observers: Observer[];
  let redis: Redis;

  beforeAll(async () => {
    server = await startRedis({ ignoreEnvironment: true });
    started.add(() => server.stop());
    redis = new Redis(server.url);
    started.add(async () => redis.disconnect());
    const monitor = await redis.monitor();
    started.add(async () => monitor.disconnect());
    monitor.on('monitor', (_: string, args: string[], source: string) => sent.push({ args, source }));
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: server.url });
    const names = ['first', 'second', 'third'];
    observers = await startObservers(
      setting,
      names.map((name) => ({ ...configMapsOf(namespace), name, watches: [], concurrency: 2 })),
    );
    for (const observer of observers) started.keep(observer);
    const urls = observers.map(({ url }) => url);
    const first = started.keep(await startGateway(setting, urls));
    await untilReady(first.url);
    const changes = new ConfigMapChanges(cluster, namespace, { count: 60, random: seededRandom('hash-slots') });
    await changes.createAll();
    await changes.keepChanging(100, async () => {
      await post(`${first.url}/queues/first/pause`);
      await eventually(async () => expect(observers[1]?.count).toBeGreaterThan(100));
      await post(`${first.url}/queues/first/resume`);
    });
    for (const observer of observers) {
      await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]));
    }
    await untilIdle(first.url);
    await first.process.kill('SIGTERM');
    // The next one resumes, and removes what belongs to the controller that is no more.
    const second = started.keep(await startGateway(setting, urls.slice(1)));
    await untilReady(second.url);
    await eventually(async () => expect(await redis.keys('*:queue:first}:*')).toEqual([]));
    await second.process.kill('SIGTERM');
    monitor.disconnect();
  });

  afterAll(() => started.stop());

  async function post(url: string): Promise<void> {
    const body = JSON.stringify({ scope: 'controller' });
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    expect(answer.status, await answer.text()).toBe(200);
  }

  const keysOf = async (args: readonly string[]): Promise<string[]> => {
    if (args.length < 2) return [];
    try {
      return (await redis.call('COMMAND', 'GETKEYS', ...args)) as string[];
    } catch (error) {
      if (/no key arguments/.test(String(error))) return [];
      throw new Error(`${String(error)}: ${args.slice(0, 4).join(' ')}`, { cause: error });
    }
  };

  it('use the keys of one hash slot each, with the commands of their scripts and transactions', async () => {
    const wrong: string[] = [];
    const transactions = new Map<string, Set<string>>();
    let script: string | undefined;
    const counts = { commands: 0, scripts: 0, inScripts: 0, transactions: 0 };
    for (const { args, source } of sent) {
      const name = args[0]?.toLowerCase() ?? '';
      if (name === 'command' || name === 'monitor') continue;
      if (name === 'multi') transactions.set(source, new Set());
      const slots = new Set((await keysOf(args)).map(hashed));
      const text = args.slice(0, 4).join(' ');
      if (slots.size > 1) wrong.push(text);
      const [slot] = slots;
      counts.commands += 1;
      if (source === 'lua') {
        counts.inScripts += 1;
        if (slot !== undefined && slot !== script) wrong.push(`in a script: ${text}`);
      } else if (name === 'evalsha' || name === 'eval') {
        counts.scripts += 1;
        script = slot;
      }
      const transaction = transactions.get(source);
      if (slot !== undefined) transaction?.add(slot);
      if (name === 'exec') {
        counts.transactions += 1;
        if ((transaction?.size ?? 0) > 1) wrong.push(`in a transaction: ${text}`);
        transactions.delete(source);
      }
    }
    expect([...new Set(wrong)]).toEqual([]);
    process.stdout.write(`hash-slots: ${JSON.stringify(counts)}\n`);
    expect(counts.scripts).toBeGreaterThan(200);
    expect(counts.inScripts).toBeGreaterThan(1000);
    expect(counts.transactions).toBeGreaterThan(0);
  });

  it('would be found wrong with keys of two slots', async () => {
    expect(new Set((await keysOf(['mget', '{a}:1', '{b}:1'])).map(hashed)).size).toBe(2);
    expect(await keysOf(['info', 'server'])).toEqual([]);
  });
});
