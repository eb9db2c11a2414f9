import { type Clock, type RequestSource, SharedRoom } from '../../../core/index.ts';

/**
 * Of bodies that are not verified yet, and of bodies that were signed wrongly within `WRONG_MS`. One source alone may
 * have half, see `SharedRoom`. The main thread hashes so much for four keys in 0.3 s.
 */
const MAX_BYTES = 64 * 1024 * 1024;
/** A body of this length is hashed in less time than its request takes anyway. */
const SMALL_BYTES = 16 * 1024;
const WRONG_MS = 10_000;

/** A body before its signature is checked: only its length is known. */
export interface UnverifiedBody {
  /** It was signed wrongly. @param bytes the length that was hashed. */
  wrong(bytes: number): void;
  /** It is verified, or was not hashed. Does nothing after the first call of either method. */
  end(): void;
}

/**
 * Bounds what strangers make the gateway read and hash before a signature shows who sends. A body counts for its source
 * until it is verified, and for a while longer if it was signed wrongly. So callbacks that are signed rightly use up
 * nothing, and small bodies never wait: the number of requests bounds them.
 */
export class UnverifiedBodies {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #room = new SharedRoom(MAX_BYTES);
  /** The oldest first. */
  readonly #wrong: { readonly source: RequestSource; readonly bytes: number; readonly untilMs: number }[] = [];

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** @param bytes the most that the body may have. @returns undefined when the source has no room for it. */
  open(source: RequestSource, bytes: number): UnverifiedBody | undefined {
    this.#forgetOld();
    let held = bytes > SMALL_BYTES ? bytes : 0;
    if (held > 0 && !this.#room.take(source, held)) return undefined;
    const keep = (kept: number): void => {
      this.#room.giveBack(source, held - kept);
      held = 0;
    };
    return {
      wrong: (hashed) => {
        const kept = hashed > SMALL_BYTES ? Math.min(hashed, held) : 0;
        keep(kept);
        if (kept > 0) this.#wrong.push({ source, bytes: kept, untilMs: this.#clock.now() + WRONG_MS });
      },
      end: () => keep(0),
    };
  }

  #forgetOld(): void {
    const now = this.#clock.now();
    while (this.#wrong[0] && this.#wrong[0].untilMs <= now) {
      const { source, bytes } = this.#wrong[0];
      this.#wrong.shift();
      this.#room.giveBack(source, bytes);
    }
  }
}
