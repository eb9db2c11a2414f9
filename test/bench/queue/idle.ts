import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { TestProcess } from '../../harness/process.ts';
import { uniqueName } from '../../harness/levelhook.ts';

/**
 * CPU and Redis commands of the queues of a gateway with that many controllers and nothing to do, in a process of its
 * own.
 */
export async function idleGateway(redisUrl: string, controllers: number, seconds: number): Promise<string> {
  const gateway = new TestProcess(
    'test/bench/queue/idle-process.ts',
    [redisUrl, uniqueName('idle'), `${controllers}`],
    {},
  );
  const redis = await connectRedis(redisUrl);
  const commands = async (): Promise<number> =>
    Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1]);
  try {
    await gateway.line(({ msg }) => msg === 'started');
    await sleep(3000);
    const [startMs, before] = [machineMs(), await commands()];
    const first = await gateway.line(({ cpuMs, at }) => cpuMs !== undefined && Number(at) >= startMs);
    await sleep(seconds * 1000);
    const endMs = machineMs();
    const last = await gateway.line(({ cpuMs, at }) => cpuMs !== undefined && Number(at) >= endMs);
    const perSecond = ((await commands()) - before - 1) / ((machineMs() - startMs) / 1000);
    const cpu = (Number(last['cpuMs']) - Number(first['cpuMs'])) / (Number(last['at']) - Number(first['at']));
    return `${(cpu * 100).toFixed(2)} % CPU of a core, ${perSecond.toFixed(0)} Redis commands a second`;
  } finally {
    redis.disconnect();
    await gateway.kill('SIGTERM');
  }
}
