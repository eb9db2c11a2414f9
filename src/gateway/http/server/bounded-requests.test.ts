import { Hono } from 'hono';
import { expect, it } from 'vitest';
import { boundedRequests } from './bounded-requests.ts';

it('requests under way leave room for those of other addresses, and give it back when they end', async () => {
  const over = Promise.withResolvers<void>();
  const app = new Hono();
  app.use(boundedRequests((context, reason) => context.text(reason, 503)));
  app.get('/', async (context) => {
    if (context.req.query('slow') !== undefined) await over.promise;
    return context.text('fine');
  });
  const ask = async (remoteAddress: string, path = '/'): Promise<number> =>
    (await app.request(path, {}, { incoming: { socket: { remoteAddress } } })).status;

  const slow = Array.from({ length: 2000 }, () => ask('10.0.0.1', '/?slow'));
  expect(await ask('10.0.0.1')).toBe(503);
  expect(await ask('10.0.0.2')).toBe(200);
  over.resolve();
  const statuses = await Promise.all(slow);
  expect(statuses.filter((status) => status === 200)).toHaveLength(512);
  expect(statuses.filter((status) => status === 503)).toHaveLength(2000 - 512);
  expect(await ask('10.0.0.1')).toBe(200);
});
