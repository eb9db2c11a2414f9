import type { Context, MiddlewareHandler } from 'hono';
import { SharedRoom } from '../../../core/index.ts';
import { sourceOf } from '../login/request.ts';

/** Requests under way of all sources. One source alone may have half, see `SharedRoom`: a proxy has many people. */
const MAX_REQUESTS = 1024;

/**
 * Bounds the requests under way for each source, before it is known who sends them. A request is over when its answer
 * begins, so a page that is updated for hours counts for a moment.
 * @param refuse makes the answer to a request beyond the bound.
 */
export function boundedRequests(refuse: (context: Context, reason: string) => Response): MiddlewareHandler {
  const room = new SharedRoom(MAX_REQUESTS);
  return async (context, next) => {
    const source = sourceOf(context);
    if (!room.take(source)) return refuse(context, 'too many requests are under way');
    try {
      await next();
    } finally {
      room.giveBack(source);
    }
    return undefined;
  };
}
