import { resource } from '../../src/core/index.ts';
import { connectRedis } from '../../src/ground/redis/redis.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import { CacheApiServer } from '../harness/cache-api-server.ts';

/** The cache API of `read.ts` as a process of its own, over one view: REDIS_URL, VIEW_PREFIX. */
const redis = await connectRedis(String(process.env['REDIS_URL']));
const view = new View(redis, resource('v1', 'ConfigMap'), { prefix: String(process.env['VIEW_PREFIX']) });
const server = await CacheApiServer.start({ views: () => [view], requestsPerSecond: 1e9 });
const token = server.token({ 'v1/ConfigMap': '*' }, 'bench', 3600);
process.stdout.write(`${JSON.stringify({ msg: 'listening', url: server.url, token })}\n`);
