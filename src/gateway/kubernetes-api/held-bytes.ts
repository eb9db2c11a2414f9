export interface HeldBytesLimits {
  /** Of one controller's requests together. */
  readonly perController: number;
  /** Of all requests together. */
  readonly total: number;
  /** What each controller may hold even when the total is used up. */
  readonly reserved: number;
}

const MIB = 1024 * 1024;

/** Five of the largest bodies for each controller, twenty in all, and a small body for each controller beyond that. */
export const HELD_BYTES: HeldBytesLimits = { perController: 16 * MIB, total: 64 * MIB, reserved: MIB / 8 };

/** What one request holds. */
export interface Hold {
  /** Takes so many bytes more. @returns false when there is no room for them; then it takes nothing. */
  add(bytes: number): boolean;
  /** Gives all back. May be called again. */
  release(): void;
}

/**
 * The bytes of bodies that proxied requests hold in this process. Each controller has a bound, so that a function which
 * sends much delays only itself. Nothing waits here: a request without room is refused.
 */
export class HeldBytes {
  readonly #limits: HeldBytesLimits;
  /** By controller. */
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(limits: HeldBytesLimits = HELD_BYTES) {
    this.#limits = limits;
  }

  /** For one request of a controller. It holds nothing yet. */
  open(controller: string): Hold {
    let own = 0;
    return {
      add: (bytes) => {
        if (!this.#hasRoom(controller, bytes)) return false;
        own += bytes;
        this.#change(controller, bytes);
        return true;
      },
      release: () => {
        this.#change(controller, -own);
        own = 0;
      },
    };
  }

  #hasRoom(controller: string, bytes: number): boolean {
    const { perController, reserved, total } = this.#limits;
    const held = (this.#held.get(controller) ?? 0) + bytes;
    return held <= perController && (this.#total + bytes <= total || held <= reserved);
  }

  #change(controller: string, bytes: number): void {
    const held = (this.#held.get(controller) ?? 0) + bytes;
    if (held > 0) this.#held.set(controller, held);
    else this.#held.delete(controller);
    this.#total += bytes;
  }
}
