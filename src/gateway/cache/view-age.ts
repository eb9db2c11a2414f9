import type { WatchEvent } from '../reflector/watch-event.ts';

/** Events that were applied together. */
export interface AppliedEvents {
  readonly events: readonly WatchEvent[];
  /** When the first of them was read, or earlier. */
  readonly fromMs: number;
  /** When the last of them was read. */
  readonly toMs: number;
}

/**
 * Knows how far a view is behind the server: the view shows all that the server had at `shownMs`. A watch moves that
 * time with each line that is applied, bookmarks included, to when the line was read. A list moves it once it is
 * complete, to when it was begun, because the objects come in no order of versions. The network's delay is left out.
 */
export class ViewAge {
  #shownMs: number | undefined;
  #listingSinceMs: number | undefined;

  /** @param takenMs when this gateway took the view: what the view lacked before that is not known. */
  constructor(takenMs: number) {
    this.#shownMs = takenMs;
  }

  /** Undefined while the server does not serve the resource, because there is nothing to be behind of. */
  get shownMs(): number | undefined {
    return this.#shownMs;
  }

  applied({ events, fromMs, toMs }: AppliedEvents): void {
    for (const { kind } of events) {
      switch (kind) {
        case 'init':
          this.#listingSinceMs = fromMs;
          break;
        case 'init-done':
          this.#shownMs = this.#listingSinceMs ?? fromMs;
          this.#listingSinceMs = undefined;
          break;
        case 'gone':
        case 'unserved':
          this.#shownMs = undefined;
          this.#listingSinceMs = undefined;
          return;
        default:
      }
    }
    const last = events.at(-1)?.kind;
    const isWatch = last === 'changed' || last === 'deleted' || last === 'bookmark';
    if (isWatch && this.#listingSinceMs === undefined && this.#shownMs !== undefined) this.#shownMs = toMs;
  }
}
