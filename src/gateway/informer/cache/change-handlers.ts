import { type KubernetesObject, tenantOf } from '../../../core/index.ts';
import type { ObjectEntry } from '../../../contract/cache-layout.ts';
import { type Change, type ChangeHandler, keysOf, lengthOf, type Wakeup } from './change.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';

/** Called when a handler has thrown, with the change that its controller has missed. */
export type OnHandlerError = (user: string, error: unknown, change: KubernetesObject) => void;

/** The controllers whose handlers were called with some changes. */
export interface Hearing {
  /** All of them, in order. */
  readonly users: readonly string[];
  /** The controllers whose handlers have failed. */
  readonly failed: readonly string[];
}

/**
 * The most keys of a controller that one change wakes, and the most characters of the wakeups of all controllers of one
 * tenant: one script writes them with the change. A controller beyond that misses the change and gets all its keys
 * instead.
 */
const MOST_KEYS = 10_000;
const MOST_CHARACTERS = 2 * 1024 * 1024;

/**
 * Calls the handlers of a view's changes, separately for each controller. If a handler of a controller throws, only
 * that controller misses the change: the script that applies the change counts this in the view, and the controller
 * gets all its keys later (`Controller.ensureKeys`).
 */
export class ChangeHandlers {
  readonly #byUser = new Map<string, readonly ChangeHandler[]>();
  readonly #onError: OnHandlerError;
  /** The handlers at the start of the current piece of changes. */
  #hearing: readonly (readonly [user: string, handlers: readonly ChangeHandler[]])[] = [];
  #failed = new Set<string>();

  constructor(onError: OnHandlerError) {
    this.#onError = onError;
  }

  set(user: string, handlers: readonly ChangeHandler[]): void {
    this.#byUser.set(user, handlers);
  }

  delete(user: string): void {
    this.#byUser.delete(user);
  }

  /** All controllers that have handlers, if only an empty list of them. */
  get users(): readonly string[] {
    return [...this.#byUser.keys()];
  }

  /**
   * Begins a group of changes that is applied as one.
   * @returns a function that lists, at the end, the users that received the changes and the users that missed some. A
   *   user that was deleted meanwhile is neither.
   */
  begin(): () => Hearing {
    this.#hearing = [...this.#byUser];
    this.#failed = new Set();
    const there = (users: readonly string[]): string[] => users.filter((user) => this.#byUser.has(user));
    return () => ({
      users: there(this.#hearing.map(([user]) => user)).toSorted(),
      failed: there([...this.#failed]),
    });
  }

  /** Whether a handler has to see the object as it was. */
  needsOld(object: KubernetesObject, old: ObjectEntry): boolean {
    // All are asked: a handler that throws must not answer for the others.
    return (
      this.#hearing.filter(([user, handlers]) => {
        if (this.#isGone(user)) return false;
        try {
          return handlers.some((handler) => handler.needsOld(object, old));
        } catch (error) {
          this.#fail(user, error, object);
          return false;
        }
      }).length > 0
    );
  }

  /**
   * The keys that a change wakes. Gives way to other work between controllers when they take long. It takes no rests
   * (`TimeSlice`), because the budgets of the controllers limit their time, and fifty controllers of a tenant would
   * have a change of another one wait for fifty rests.
   * @param slice of the work that this is a part of: with one of its own it would wait, and the wait would count there
   *   as work.
   * @param isFull whether no more lookups of a tenant may wait in the outbox. Default: any number may.
   */
  async handle(
    change: Change,
    slice = new TimeSlice(),
    isFull: (tenant: string) => boolean = () => false,
  ): Promise<Wakeup[]> {
    const wakeups: Wakeup[] = [];
    const lengths = new Map<string, number>();
    if (slice.isOver) await slice.next();
    for (const [user, handlers] of this.#hearing) {
      if (this.#isGone(user)) continue;
      try {
        const woken = handlers.flatMap((handler) => handler.handle(change));
        const keys = woken.reduce((sum, wakeup) => sum + Math.max(1, keysOf(wakeup)), 0);
        if (keys > MOST_KEYS) throw new RangeError(`one change wakes more than ${MOST_KEYS} keys`);
        const tenant = tenantOf(user);
        const hasLookup = woken.some((wakeup) => 'lookup' in wakeup);
        if (hasLookup && isFull(tenant))
          throw new RangeError('too many lookups of keys wait before those of this change');
        const length = woken.reduce((sum, wakeup) => sum + lengthOf(wakeup), lengths.get(tenant) ?? 0);
        if (length > MOST_CHARACTERS) {
          throw new RangeError(`the keys that one change wakes have more than ${MOST_CHARACTERS} characters`);
        }
        lengths.set(tenant, length);
        for (const wakeup of woken) wakeups.push(wakeup);
      } catch (error) {
        this.#fail(user, error, change.object);
      }
      if (slice.isOver) await slice.giveWay();
    }
    return wakeups;
  }

  /** Reports a change that cannot be applied: all users miss it. @returns these users. */
  failAll(error: unknown, object: KubernetesObject): readonly string[] {
    const { users } = this;
    for (const user of users) this.#onError(user, error, object);
    return users;
  }

  /** Whether a user of the group was deleted meanwhile. If it comes back, it has missed this change. */
  #isGone(user: string): boolean {
    if (this.#byUser.has(user)) return false;
    this.#failed.add(user);
    return true;
  }

  #fail(user: string, error: unknown, object: KubernetesObject): void {
    this.#failed.add(user);
    this.#onError(user, error, object);
  }
}
