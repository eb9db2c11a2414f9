import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { Started } from '../../harness/started.ts';
import type { Written } from './actions.ts';
import { type Bulk, type BulkObject, fields } from './bulk.ts';
import { Ground, World } from './world.ts';

/** How long the victim is watched after a write. */
export const WATCH_MS = 4000;

/**
 * Fails with the first violations and how many there are, and the evidence after them: the last lines of a run show
 * only the beginning and the end of a message.
 */
export async function expectNone(
  violations: readonly string[],
  evidence: () => Promise<string> | string,
): Promise<void> {
  if (violations.length === 0) return;
  expect.fail(`${violations.length} violations: ${violations.slice(0, 6).join('; ')}\n${await evidence()}`);
}

/**
 * What a tenant writes in its own namespace, one thing in each test of a file, and what that does to another tenant.
 */
export class SingleWrites {
  readonly #started = new Started();
  #ground: Ground | undefined;
  #world: World | undefined;
  #startedAtMs = 0;

  /** The tests of this file have a world, the same one as long as nothing has hurt its victim. */
  static inThisFile(): SingleWrites {
    const writes = new SingleWrites();
    beforeAll(async () => void (writes.#ground = await Ground.start(writes.#started)), 15 * 60_000);
    beforeEach(() => writes.#begin());
    afterEach(() => writes.#end());
    afterAll(async () => {
      await writes.#world?.stop();
      await writes.#started.stop();
    });
    return writes;
  }

  get world(): World {
    if (!this.#world) throw new Error('there is no world');
    return this.#world;
  }

  /** Harm counts from now on. @returns the time, in milliseconds since the epoch. */
  beginWatch(): number {
    this.#startedAtMs = Date.now();
    return this.#startedAtMs;
  }

  /** The apiserver accepts it: else there would be no danger, and no test. */
  async put(what: Written, name: string, object: BulkObject): Promise<void> {
    const { status, text } = await this.world.put(what, name, object);
    expect(status, text).toBeLessThan(300);
  }

  async declare(name: string, spec: Readonly<Record<string, Bulk>>): Promise<void> {
    const { status, text } = await this.world.declare(name, spec);
    expect(status, text).toBeLessThan(300);
  }

  /** Until the tenant's function is sent triggers: it runs as far as it can. */
  async untilItRuns(): Promise<void> {
    const before = this.world.fn.count;
    await eventually(
      async () => {
        const text = String(Date.now());
        await this.put('configmaps', 'touched', fields({ data: fields({ text }) }));
        expect(this.world.fn.count).toBeGreaterThan(before);
      },
      60_000,
      500,
    );
  }

  async expectNoHarm(): Promise<void> {
    await sleep(WATCH_MS);
    await eventually(async () => {
      const { seen, polls } = this.world.violations(this.#startedAtMs).findings;
      expect(seen).toBeGreaterThan(WATCH_MS / 500);
      expect(polls).toBeGreaterThan(WATCH_MS / 1000);
    });
    // What a standstill explains is known a moment later.
    await eventually(
      async () => {
        const { violations } = this.world.violations(this.#startedAtMs);
        await expectNone(violations, () => this.world.evidence());
      },
      3000,
      500,
    );
  }

  async #begin(): Promise<void> {
    if (!this.#ground) throw new Error('there is no ground');
    this.#world ??= await World.start(this.#ground);
    this.beginWatch();
  }

  async #end(): Promise<void> {
    if (!this.#world) return;
    const { user, kinds, hostile } = this.#world;
    const isHurt = this.#world.violations(this.#startedAtMs).violations.length > 0;
    for (const what of ['reconcilefunctions', 'configmaps', 'pods', 'things'] as Written[]) {
      await user.removeAll(kinds[what], hostile.namespace);
    }
    if (!isHurt) return;
    await this.#world.stop();
    this.#world = undefined;
  }
}
