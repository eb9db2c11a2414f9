import { type Clock, type RequestSource, SharedRoom } from '../../../core/index.ts';

/** Of bodies that are not verified yet. One source alone may have half, see `SharedRoom`. */
const MAX_BYTES = 64 * 1024 * 1024;
/**
 * Of bodies that were signed wrongly within `WRONG_MS`: of a source, and of all. The main thread hashes the latter for
 * four keys in 0.3 s.
 */
const WRONG_BYTES = { ofSource: MAX_BYTES / 2, together: MAX_BYTES };
const WRONG_MS = 10_000;
/** A body of this length is hashed in less time than its request takes anyway. */
const SMALL_BYTES = 16 * 1024;

/** A body before its signature is checked: only its length is known. */
export interface UnverifiedBody {
  /** It was signed wrongly. @param bytes the length that was hashed. */
  wrong(bytes: number): void;
  /** It is verified, or was not hashed. Does nothing after the first call of either method. */
  end(): void;
}

/**
 * Bounds what strangers make the gateway read and hash before a signature shows who sends. A source that has sent large
 * bodies with wrong signatures gets no room for more of them for a while. Sources that have not are not affected, so
 * strangers keep out no function. Small bodies never wait: the number of requests bounds them.
 */
export class UnverifiedBodies {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #room = new SharedRoom(MAX_BYTES);
  /** The oldest first. */
  readonly #wrong: { readonly name: string; readonly bytes: number; readonly untilMs: number }[] = [];
  readonly #wrongOf = new Map<string, number>();
  #allWrong = 0;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** @param bytes the most that the body may have. @returns undefined when the source has no room for it. */
  open(source: RequestSource, bytes: number): UnverifiedBody | undefined {
    this.#forgetOld();
    let held = bytes > SMALL_BYTES ? bytes : 0;
    if (held > 0 && (this.#isSuspect(source, held) || !this.#room.take(source, held))) return undefined;
    const end = (): void => {
      this.#room.giveBack(source, held);
      held = 0;
    };
    return {
      wrong: (hashed) => {
        end();
        if (hashed > SMALL_BYTES) this.#count(source.name, hashed);
      },
      end,
    };
  }

  #isSuspect({ name }: RequestSource, bytes: number): boolean {
    const own = this.#wrongOf.get(name) ?? 0;
    if (own === 0) return false;
    return own + bytes > WRONG_BYTES.ofSource || this.#allWrong + bytes > WRONG_BYTES.together;
  }

  #count(name: string, bytes: number): void {
    this.#wrong.push({ name, bytes, untilMs: this.#clock.now() + WRONG_MS });
    this.#add(name, bytes);
  }

  #add(name: string, bytes: number): void {
    this.#allWrong += bytes;
    const own = (this.#wrongOf.get(name) ?? 0) + bytes;
    if (own > 0) this.#wrongOf.set(name, own);
    else this.#wrongOf.delete(name);
  }

  #forgetOld(): void {
    const now = this.#clock.now();
    while (this.#wrong[0] && this.#wrong[0].untilMs <= now) {
      const { name, bytes } = this.#wrong[0];
      this.#wrong.shift();
      this.#add(name, -bytes);
    }
  }
}
