import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { gatewayKeys } from '../../../src/contract/cache-layout.ts';
import { DATA_VERSION } from '../../../src/gateway/manager/data-version.ts';
import { DATA_VERSION_FIELD } from '../../../src/gateway/manager/registry-fields.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
const { registry } = gatewayKeys({ keyPrefix: setting.keyPrefix, clusterId: 'versions' });
const variables = { LEVELHOOK_CLUSTER_ID: 'versions' };
let redis: Redis;

beforeAll(() => {
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
});

afterAll(() => started.stop());

it('a gateway records the version of its data', async () => {
  const gateway = started.keep(await openGateway(setting, [], variables));
  await untilReady(gateway.url);
  await eventually(async () => expect(await redis.hget(registry, DATA_VERSION_FIELD)).toBe(String(DATA_VERSION)));
  expect(await gateway.process.kill('SIGTERM')).toBe(0);
});

it('a gateway refuses to start on data of a newer build, in one sentence, and leaves it alone', async () => {
  await redis.hset(registry, DATA_VERSION_FIELD, DATA_VERSION + 1);
  const before = await redis.hgetall(registry);
  const gateway = started.keep(await openGateway(setting, [], variables));
  expect(await gateway.process.exited).toBe(1);
  expect(gateway.process.output).toContain(`has version ${DATA_VERSION + 1}`);
  expect(gateway.process.output).not.toMatch(/\n\s+at /);
  expect(await redis.hgetall(registry)).toEqual(before);
});
