import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { gatewayKeys } from '../../../src/contract/cache-layout.ts';
import { DATA_VERSION } from '../../../src/gateway/election/data-version.ts';
import { DATA_VERSION_FIELD } from '../../../src/gateway/election/registry-fields.ts';
import { eventually } from '../../harness/eventually.ts';
import { openGateway } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

const variables = { LEVELHOOK_CLUSTER_ID: 'versions' };
let redis: Redis;
let registry: string;

it.beforeAll(({ world: { setting, started } }) => {
  ({ registry } = gatewayKeys({ keyPrefix: setting.keyPrefix, clusterId: 'versions' }));
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
});

it('a gateway records the version of its data', async ({ world }) => {
  const gateway = await world.gateway([], variables);
  await eventually(async () => expect(await redis.hget(registry, DATA_VERSION_FIELD)).toBe(String(DATA_VERSION)));
  expect(await gateway.process.kill('SIGTERM')).toBe(0);
});

it('a gateway refuses to start on data of a newer build, in one sentence, and leaves it alone', async ({ world }) => {
  await redis.hset(registry, DATA_VERSION_FIELD, DATA_VERSION + 1);
  const before = await redis.hgetall(registry);
  const gateway = world.started.keep(await openGateway(world.setting, [], variables));
  expect(await gateway.process.exited).toBe(1);
  expect(gateway.process.output).toContain(`has version ${DATA_VERSION + 1}`);
  expect(gateway.process.output).not.toMatch(/\n\s+at /);
  expect(await redis.hgetall(registry)).toEqual(before);
});
