import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { eventually } from '../harness/eventually.ts';
import { FaultWorld } from '../harness/fault-world.ts';
import { FullRedis } from '../harness/full-redis.ts';
import { metric } from '../harness/gateway-view.ts';
import { untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';

/** How long memory is short each time, and how often; 30 and 20 in the long variant, with more keys. */
const SECONDS = Number(process.env['REDIS_FULL_SECONDS'] ?? 5);
const RUNS = Number(process.env['REDIS_FULL_RUNS'] ?? 1);
/** Keys that wait when memory runs out; as many again as may be in flight are changed beside them. */
const WAITING = RUNS > 1 ? 1000 : 300;

const started = new Started();
let redis: RedisServer;
let full: FullRedis;
let world: FaultWorld;

beforeAll(async () => {
  redis = await startRedis({ ignoreEnvironment: true });
  started.add(() => redis.stop());
  full = new FullRedis(redis.url);
  started.add(async () => full.close());
  world = await FaultWorld.start(started, 'redis-full', {
    kubeconfig: inject('kubeconfig'),
    redisUrl: redis.url,
    objects: WAITING + 100,
    deletions: false,
    observer: { timeoutSeconds: 30 },
    changesPerSecond: 10,
  });
  await world.untilAllIsWell();
});

afterAll(() => started.stop());

async function readyz(gatewayUrl: string): Promise<string> {
  const answer = await fetch(`${gatewayUrl}/readyz`);
  return answer.ok ? 'ok' : answer.text();
}

describe('a Redis that evicts keys', () => {
  it('is refused at the start of a gateway, with one sentence that says what to do', async () => {
    const other = await startRedis({ ignoreEnvironment: true });
    started.add(() => other.stop());
    const evicting = new FullRedis(other.url);
    started.add(async () => evicting.close());
    await evicting.setPolicy('allkeys-lru');
    const { kubeconfig, keyPrefix, secret } = world.setting;
    const gateway = new TestProcess('src/cli/levelhook.js', ['gateway', '--kubeconfig', kubeconfig, '--port', '0'], {
      REDIS_URL: other.url,
      LEVELHOOK_KEY_PREFIX: keyPrefix,
      LEVELHOOK_SIGNING_SECRETS: secret,
    });
    started.keep({ process: gateway });
    expect(await gateway.exited).toBe(1);
    const said = gateway.lines.flatMap(({ text }) => (text === undefined ? [] : [text]));
    expect(said, gateway.output).toEqual([
      expect.stringMatching(/^.* cannot be used: maxmemory-policy is allkeys-lru, .*: set it to noeviction\.$/),
    ]);
  });

  it('makes a gateway not ready until it is put right', async () => {
    const { url, process: gateway } = world.gateway;
    await full.setPolicy('volatile-ttl');
    await eventually(async () => expect(await readyz(url)).toContain('[-]redis failed: maxmemory-policy'));
    expect(await readyz(url)).toContain('volatile-ttl');
    expect(await metric(url, 'levelhook_gateway_suspended')).toBe(1);
    await full.setPolicy('noeviction');
    // A look at the server, once a minute, may have met the other policy.
    await untilReady(url, 120_000);
    expect(await metric(url, 'levelhook_gateway_suspended')).toBe(0);
    const said = gateway.lines.filter(({ msg }) => typeof msg === 'string' && msg.startsWith('Redis can'));
    expect(said).toEqual([
      expect.objectContaining({
        msg: 'Redis cannot be used, dispatch is paused',
        reason: expect.stringContaining('volatile-ttl') as string,
      }),
      expect.objectContaining({ msg: 'Redis can be used again, dispatch goes on' }),
    ]);
    await world.untilAllIsWell();
  });
});

it.each(Array.from({ length: RUNS }, (_, at) => at + 1))(
  `a Redis that is out of memory for ${SECONDS} s under ${WAITING} waiting keys loses no change, and /readyz says so (%d)`,
  { timeout: 240_000 + SECONDS * 1000 },
  async () => {
    const { changes, gateway, observer } = world;
    const depth = (): Promise<number> => metric(gateway.url, 'workqueue_depth', { name: observer.name });
    await full.limit();
    // The function stands still while all objects change, so that their keys wait.
    observer.process.send('SIGSTOP');
    await changes.updateAll();
    await eventually(async () => expect(await depth()).toBeGreaterThanOrEqual(WAITING));
    const [waited, refused] = [await depth(), full.refused];

    const said: string[] = [];
    const isFull = (text: string): boolean => /^\[-\]redis failed: Redis .*(out of|want of) memory/m.test(text);
    const enough = new AbortController();
    const filling = full.keepFull(enough.signal);
    await eventually(async () => expect(full.refused).toBeGreaterThan(refused));
    observer.process.send('SIGCONT');
    const fullMs = machineMs();
    await world.underChanges(async () => {
      while (machineMs() < fullMs + SECONDS * 1000 || !said.some(isFull)) {
        said.push(await readyz(gateway.url));
        await sleep(250);
      }
    });
    enough.abort();
    await filling;
    const since = said.slice(said.findIndex(isFull));
    expect(since.filter(isFull).length).toBeGreaterThan(since.length / 2);

    const freeMs = machineMs();
    await untilReady(gateway.url);
    const paused = gateway.process.lines.findLast(({ msg }) => msg === 'Redis cannot be used, dispatch is paused');
    expect(paused?.['reason']).toMatch(/out of memory|want of memory/);
    await world.untilAllIsWell();
    process.stdout.write(
      `redis-full: ${waited} keys waited, ${full.refused - refused} writes refused, all ${changes.acknowledged} changes ` +
        `reconciled ${((machineMs() - freeMs) / 1000).toFixed(1)} s after memory was back\n`,
    );
    await eventually(async () => expect(await depth()).toBe(0));
    await eventually(async () => expect(await metric(gateway.url, 'levelhook_queue_oldest_due_seconds')).toBe(0));
  },
);
