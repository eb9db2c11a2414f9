export interface HeldBytesLimits {
  /** Of one owner's requests together. */
  readonly perOwner: number;
  /** Of all requests together. */
  readonly total: number;
  /** The bytes that each owner may hold even when the total is used up. */
  readonly reserved: number;
}

const MIB = 1024 * 1024;

/** Four owners may hold their most at a time, which is several of the largest bodies. Others then hold small bodies. */
export const HELD_BYTES: HeldBytesLimits = { perOwner: 16 * MIB, total: 64 * MIB, reserved: MIB / 8 };

/** The bytes that one request holds. */
export interface Hold {
  /** Takes this number of bytes more. @returns false when there is no room for them; then it takes nothing. */
  add(bytes: number): boolean;
  /** Gives all back. May be called again. */
  release(): void;
}

/**
 * The bytes of bodies that functions send and that this process holds: requests to the apiserver, and answers to
 * triggers. The owner is a tenant. Its bound does not grow with its functions, so a function that sends much delays
 * only functions of its tenant. Nothing waits here: bytes without room are refused.
 */
export class HeldBytes {
  readonly #limits: HeldBytesLimits;
  /** By owner. */
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(limits: HeldBytesLimits = HELD_BYTES) {
    this.#limits = limits;
  }

  /** For one request of an owner. It holds nothing yet. */
  open(owner: string): Hold {
    let own = 0;
    return {
      add: (bytes) => {
        if (!this.#hasRoom(owner, bytes)) return false;
        own += bytes;
        this.#change(owner, bytes);
        return true;
      },
      release: () => {
        this.#change(owner, -own);
        own = 0;
      },
    };
  }

  #hasRoom(owner: string, bytes: number): boolean {
    const { perOwner, reserved, total } = this.#limits;
    const held = (this.#held.get(owner) ?? 0) + bytes;
    return held <= perOwner && (this.#total + bytes <= total || held <= reserved);
  }

  #change(owner: string, bytes: number): void {
    const held = (this.#held.get(owner) ?? 0) + bytes;
    if (held > 0) this.#held.set(owner, held);
    else this.#held.delete(owner);
    this.#total += bytes;
  }
}
