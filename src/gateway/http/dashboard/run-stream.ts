import type { Context } from 'hono';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import { type Logger, messageOf } from '../../../core/index.ts';
import type { LoginEnv, Visitor } from '../login/visitor.ts';
import { isCursor, type PastOutcome } from '../../controller/workqueue/history/past-run.ts';
import type { DashboardData } from './data.ts';
import { newRows } from './pages/runs.ts';
import { Times } from './times.ts';

export interface RunStreamQuery {
  readonly id: string;
  readonly outcome: PastOutcome | undefined;
  /** The cursor of the newest run that the visitor has; undefined when there was none. */
  readonly after: string | undefined;
}

const EVERY_MS = 1000;
/** After this number of looks, the visitor's session and right are checked again, and a heartbeat is sent. */
const CHECK_EVERY = 10;
const MOST = 50;
/** Streams of one session at a time: a browser has six connections to a server. */
const MOST_OPEN = 4;

function lastEvent(context: Context): string | undefined {
  const id = context.req.header('last-event-id');
  return id !== undefined && isCursor(id) ? id : undefined;
}

/** The streams that are open, by the session of their visitor, or by the client that has none. */
export class RunStreams {
  readonly #open = new Map<string, number>();

  /**
   * Server-sent events with the runs of a controller as they end. Each event has rows as markup and, as its id, the
   * cursor of the newest run, from which a browser goes on after a broken connection. The stream ends with the
   * visitor's session, and while Redis is away. A session with four of them gets 429, after which a browser does not
   * ask again: the page shows its runs as they were.
   */
  open(
    context: Context<LoginEnv>,
    data: DashboardData,
    { query, logger }: { readonly query: RunStreamQuery; readonly logger: Logger },
  ): Response {
    const { visitor } = context.var;
    context.header('cache-control', 'no-store');
    // An answer to HEAD has no body, so its stream would never end.
    if (context.req.method === 'HEAD') return context.body(null, 200, { 'content-type': 'text/event-stream' });
    const session = visitor.csrfToken ?? visitor.client;
    const open = this.#open.get(session) ?? 0;
    if (open >= MOST_OPEN) return context.text(`there are ${open} streams of runs for you already\n`, 429);
    const close = this.#begin(session);
    return streamSSE(
      context,
      async (stream) => {
        stream.onAbort(close);
        try {
          await follow(stream, data, { ...query, after: lastEvent(context) ?? query.after, visitor });
        } finally {
          close();
        }
      },
      async (error) => {
        logger.debug({ controller: query.id, error: messageOf(error) }, 'a stream of runs ended');
      },
    );
  }

  /** @returns ends it, once. */
  #begin(visitor: string): () => void {
    this.#open.set(visitor, (this.#open.get(visitor) ?? 0) + 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (this.#open.get(visitor) ?? 0) - 1;
      if (left > 0) this.#open.set(visitor, left);
      else this.#open.delete(visitor);
    };
  }
}

async function follow(
  stream: SSEStreamingApi,
  data: DashboardData,
  { id, outcome, visitor, ...query }: RunStreamQuery & { readonly visitor: Visitor },
): Promise<void> {
  const time = data.times.ofVisitor(visitor.client);
  let { after } = query;
  for (let look = 1; !stream.aborted; look += 1) {
    const controller = data.controller(id);
    if (!controller || data.unavailable() !== undefined) return;
    const { newest, rows } = await time.inPlace(async () => {
      const found = await controller.queue.history.runs({
        limit: MOST,
        ...(outcome ? { outcome } : {}),
        ...(after === undefined ? {} : { after }),
      });
      if (found.runs.length === 0) return { newest: found.newest, rows: undefined };
      const times = new Times(data.clock.now(), data.clock.wallNow());
      return { newest: found.newest, rows: await time.pace(() => newRows({ times }, id, found.runs)) };
    });
    if (rows) await stream.writeSSE({ data: rows, ...(newest === undefined ? {} : { id: newest }) });
    after = newest ?? after;
    if (look % CHECK_EVERY === 0) {
      if (!(await visitor.recheck())) return;
      await stream.writeSSE({ event: 'alive', data: '' });
    }
    await stream.sleep(EVERY_MS);
  }
}
