import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { HonoAdapter } from '@bull-board/hono';
import { serveStatic } from '@hono/node-server/serve-static';
import type { Queue } from 'bullmq';
import { Hono, type MiddlewareHandler } from 'hono';

const PATH = '/dashboard';

/**
 * bull-board over the queues, read-only: a job retried or removed there would go past the key records, and could run
 * beside a live one.
 */
export class Dashboard {
  readonly path = PATH;
  readonly app: Hono;
  readonly #board: ReturnType<typeof createBullBoard>;

  constructor() {
    const serverAdapter = new HonoAdapter(serveStatic);
    serverAdapter.setBasePath(PATH);
    this.#board = createBullBoard({
      queues: [],
      serverAdapter,
      options: { uiConfig: { boardTitle: 'levelhook', hideRedisDetails: true } },
    });
    this.app = new Hono().use(withoutOutsideLinks).route('/', serverAdapter.registerPlugin());
  }

  add(queue: Queue): void {
    this.#board.addQueue(new BullMQAdapter(queue, { readOnlyMode: true, allowRetries: false }));
  }
}

/** bull-board's page asks Google for its fonts: nobody outside is told of a gateway, and without a network it would wait. */
const withoutOutsideLinks: MiddlewareHandler = async (context, next) => {
  await next();
  if (!context.res.headers.get('content-type')?.startsWith('text/html')) return;
  const html = await context.res.text();
  context.res = context.html(html.replaceAll(/<link [^>]*href="https?:[^>]*>/g, ''), context.res.status as 200);
};
