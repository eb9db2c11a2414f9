import { createHmac, timingSafeEqual } from 'node:crypto';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { Redis } from 'ioredis';
import { machineMs } from '../../../harness/machine-clock.ts';
import { apiserver } from '../kubeconfig.ts';
import { namespace, type Read, reportRun, reportStamped, stampPatch } from '../report.ts';

/** The function of the prototype. `function.ts KUBECONFIG REDIS_URL SECRET` */
const [kubeconfig = '', redisUrl = '', secret = ''] = process.argv.slice(2);
const redis = new Redis(redisUrl);
const request = apiserver(kubeconfig);
const app = new Hono();

app.post('/', async (context) => {
  const body = await context.req.text();
  const expected = createHmac('sha256', secret).update(body).digest();
  const given = Buffer.from(context.req.header('signature') ?? '', 'hex');
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return context.text('not signed', 401);
  await reconcile((JSON.parse(body) as { key: string }).key);
  return context.json({ status: 'done' });
});

async function reconcile(key: string): Promise<void> {
  const startedAtMs = machineMs();
  if (!key.startsWith(`${namespace}/`)) return;
  const text = await redis.hget('objects', key);
  if (text === null) return;
  const object = JSON.parse(text) as Read;
  const { name } = object.metadata;
  const change = reportRun(object, startedAtMs);
  if (change === undefined) return;
  const answer = await request({
    method: 'PATCH',
    path: `/api/v1/namespaces/${namespace}/configmaps/${name}`,
    contentType: 'application/merge-patch+json',
    body: JSON.stringify(stampPatch(change)),
  });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`${name}: the apiserver answered ${answer.statusCode}`);
  reportStamped(name);
}

serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
  process.stdout.write(`${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${port}` })}\n`),
);
