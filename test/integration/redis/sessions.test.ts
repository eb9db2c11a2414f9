import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { LoginUnavailableError } from '../../../src/gateway/http/login/identity.ts';
import { Sessions } from '../../../src/gateway/http/login/sessions.ts';
import { RedisClusterNodes } from '../../harness/redis-process.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
let redis: Redis;

beforeAll(async () => {
  const nodes = await RedisClusterNodes.start(started);
  redis = await connectRedis(nodes.url);
  started.add(async () => redis.disconnect());
});
afterAll(() => started.stop());

it('on a Redis Cluster sessions begin and end, and a user has twenty of them', async () => {
  const sessions = new Sessions(redisLocation(redis, 'sessions', 'c'));
  const cookies: string[] = [];
  for (let at = 0; at < 21; at += 1) cookies.push(await sessions.start('static token:ann', `token-${at}`));
  const other = await sessions.start('static token:ben', 'token-of-ben');
  const tokens = await Promise.all(cookies.map((cookie) => sessions.tokenOf(cookie)));
  expect(tokens).toEqual([undefined, ...Array.from({ length: 20 }, (_, at) => `token-${at + 1}`)]);
  await sessions.end(cookies[20] ?? '');
  expect(await sessions.tokenOf(cookies[20] ?? '')).toBeUndefined();
  expect(await sessions.tokenOf(other)).toBe('token-of-ben');
});

it('transactions with keys of two slots would not begin', async () => {
  const { sessionsPrefix } = redisLocation(redis, 'sessions', 'c');
  const apart = new Sessions({ redis, sessionsPrefix: sessionsPrefix.replace(/[{}]/g, '') });
  const attempts = await Promise.allSettled(Array.from({ length: 10 }, (_, at) => apart.start(`user-${at}`, 'token')));
  const refused = attempts
    .filter(({ status }) => status === 'rejected')
    .map((each) => (each as PromiseRejectedResult).reason);
  expect(refused.length).toBeGreaterThan(0);
  for (const reason of refused) expect(reason).toBeInstanceOf(LoginUnavailableError);
});
