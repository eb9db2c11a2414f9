import type { createBullBoard } from '@bull-board/api';
import type { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { Queue } from 'bullmq';
import { Hono, type MiddlewareHandler } from 'hono';
import { BULLMQ_PATH } from '../dashboard/urls.ts';

/**
 * bull-board over the queues, read-only: a job retried or removed there would bypass the key records, and could run at
 * the same time as a live one. The first request loads it.
 */
export class BullMqBoard {
  readonly app: Hono;
  readonly #queues = new Map<string, Queue>();
  #board: Promise<Board> | undefined;

  constructor() {
    this.app = new Hono().use(readOnly).all('*', async (context) => {
      this.#board ??= Board.load(BULLMQ_PATH).catch((error: unknown) => {
        this.#board = undefined;
        throw error;
      });
      const board = await this.#board;
      board.show(this.#queues);
      return board.app.fetch(context.req.raw, context.env);
    });
  }

  /** The queue of a controller, in the place of an earlier one. */
  add(name: string, queue: Queue): void {
    this.#queues.set(name, queue);
  }

  remove(name: string): void {
    this.#queues.delete(name);
  }
}

/** The loaded bull-board and the queues that it shows. */
class Board {
  readonly app: Hono;
  readonly #board: ReturnType<typeof createBullBoard>;
  readonly #adapt: (queue: Queue) => BullMQAdapter;
  readonly #shown = new Map<string, { readonly queue: Queue; readonly adapter: BullMQAdapter }>();

  private constructor(app: Hono, board: ReturnType<typeof createBullBoard>, adapt: (queue: Queue) => BullMQAdapter) {
    this.app = app;
    this.#board = board;
    this.#adapt = adapt;
  }

  static async load(path: string): Promise<Board> {
    const [api, { BullMQAdapter: Adapter }, { HonoAdapter }, { serveStatic }] = await Promise.all([
      import('@bull-board/api'),
      import('@bull-board/api/bullMQAdapter'),
      import('@bull-board/hono'),
      import('@hono/node-server/serve-static'),
    ]);
    const serverAdapter = new HonoAdapter(serveStatic);
    serverAdapter.setBasePath(path);
    const board = api.createBullBoard({
      queues: [],
      serverAdapter,
      options: { uiConfig: { boardTitle: 'levelhook', hideRedisDetails: true } },
    });
    const app = new Hono().use(withoutOutsideLinks).route(path, serverAdapter.registerPlugin());
    return new Board(app, board, (queue) => new Adapter(queue, { readOnlyMode: true, allowRetries: false }));
  }

  /** Shows these queues and no others. */
  show(queues: ReadonlyMap<string, Queue>): void {
    for (const [name, { adapter, queue }] of this.#shown) {
      if (queues.get(name) === queue) continue;
      this.#board.removeQueue(adapter);
      this.#shown.delete(name);
    }
    for (const [name, queue] of queues) {
      if (this.#shown.has(name)) continue;
      const adapter = this.#adapt(queue);
      this.#board.addQueue(adapter);
      this.#shown.set(name, { queue, adapter });
    }
  }
}

/** bull-board's own read-only mode is checked queue by queue, and by each of its handlers: this by none of them. */
const readOnly: MiddlewareHandler = async (context, next) => {
  if (['GET', 'HEAD'].includes(context.req.method)) return next();
  return context.text('this part of the dashboard is read-only\n', 405, { allow: 'GET, HEAD' });
};

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
