import type { Context } from 'hono';
import { streamSSE } from 'hono/streaming';
import { type Logger, messageOf } from '../../../core/index.ts';
import type { LoginEnv } from '../login/visitor.ts';
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

function lastEvent(context: Context): string | undefined {
  const id = context.req.header('last-event-id');
  return id !== undefined && isCursor(id) ? id : undefined;
}

/**
 * Server-sent events with the runs of a controller as they end. Each event has rows as markup and, as its id, the
 * cursor of the newest run, from which a browser goes on after a broken connection. The stream ends with the visitor's
 * session, and while Redis is away.
 */
export function runStream(
  context: Context<LoginEnv>,
  data: DashboardData,
  { query, logger }: { readonly query: RunStreamQuery; readonly logger: Logger },
): Response {
  const { id, outcome } = query;
  const { visitor } = context.var;
  let after = lastEvent(context) ?? query.after;
  context.header('cache-control', 'no-store');
  return streamSSE(
    context,
    async (stream) => {
      for (let look = 1; !stream.aborted; look += 1) {
        const controller = data.controller(id);
        if (!controller || data.unavailable() !== undefined) return;
        const found = await controller.queue.history.runs({
          limit: MOST,
          ...(outcome ? { outcome } : {}),
          ...(after === undefined ? {} : { after }),
        });
        if (found.runs.length > 0) {
          const times = new Times(data.clock.now(), data.clock.wallNow());
          await stream.writeSSE({
            data: newRows({ times }, id, found.runs),
            ...(found.newest === undefined ? {} : { id: found.newest }),
          });
        }
        after = found.newest ?? after;
        if (look % CHECK_EVERY === 0) {
          if (!(await visitor.recheck())) return;
          await stream.writeSSE({ event: 'alive', data: '' });
        }
        await stream.sleep(EVERY_MS);
      }
    },
    async (error) => {
      logger.debug({ controller: id, error: messageOf(error) }, 'a stream of runs ended');
    },
  );
}
