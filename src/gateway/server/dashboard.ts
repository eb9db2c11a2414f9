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
  readonly #adapters = new Map<string, BullMQAdapter>();

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

  /** The queue of a controller, in the place of an earlier one. */
  add(name: string, queue: Queue): void {
    this.remove(name);
    const adapter = new BullMQAdapter(queue, { readOnlyMode: true, allowRetries: false });
    this.#board.addQueue(adapter);
    this.#adapters.set(name, adapter);
  }

  remove(name: string): void {
    const adapter = this.#adapters.get(name);
    if (!adapter) return;
    this.#board.removeQueue(adapter);
    this.#adapters.delete(name);
  }
}

/**
 * bull-board's page asks Google for its fonts: no outside server learns of a gateway, and without a network it would
 * wait.
 */
const withoutOutsideLinks: MiddlewareHandler = async (context, next) => {
  await next();
  if (!context.res.headers.get('content-type')?.startsWith('text/html')) return;
  const html = await context.res.text();
  context.res = context.html(html.replaceAll(/<link [^>]*href="https?:[^>]*>/g, ''), context.res.status as 200);
};
