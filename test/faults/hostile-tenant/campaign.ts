import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { randomOf } from '../../harness/random.ts';
import { type Action, describeAction } from './actions.ts';
import { action } from './grammar.ts';
import { TOLD_WITHIN_MS } from './monitor.ts';
import type { World } from './world.ts';

/** Actions that are done at a time. */
const HANDS = 3;
/** Between two actions of one hand, at most. */
const PAUSE_MS = 250;
const LOOK_EVERY_MS = 2000;
const SPY_EVERY_MS = 5000;
/** Of the actions before a violation, for its message. */
const LAST_ACTIONS = 15;

export interface CampaignOptions {
  readonly seconds: number;
  readonly seed: number;
  /** A file of recorded actions, which are done instead of generated ones. */
  readonly recording: string | undefined;
}

/** One thing that was done, and what the apiserver said. */
interface Done {
  readonly atMs: number;
  readonly action: Action;
  readonly status: number | undefined;
}

/** What a hostile tenant does, for a while: generated actions one after the other, while it reads all that it can. */
export class Campaign {
  readonly #world: World;
  readonly #options: CampaignOptions;
  readonly #done: Done[] = [];
  /** How often each was seen: the ReconcileFunctions' condition Ready. */
  readonly conditions = new Map<string, number>();
  #violations: readonly string[] = [];
  #lastedMs = 0;

  constructor(world: World, options: CampaignOptions) {
    this.#world = world;
    this.#options = options;
  }

  /** How long the tenant acted. */
  get lastedSeconds(): number {
    return this.#lastedMs / 1000;
  }

  get actions(): number {
    return this.#done.length;
  }

  /** Those that the apiserver accepted. */
  get accepted(): number {
    return this.#done.filter(({ status }) => status === undefined || status < 300).length;
  }

  /**
   * @param isEnough whether so much was done and seen that the campaign may end, once its time is over.
   * @returns the violations. The first one ends the campaign, so these are few; none: the victim was served.
   */
  async run(isEnough: () => boolean): Promise<readonly string[]> {
    const { seconds, seed } = this.#options;
    const startedAtMs = Date.now();
    const over = new AbortController();
    const watching = this.#watch(startedAtMs, over);
    const spying = this.#spy(over.signal);
    const random = randomOf(seed);
    const actions = this.#actions();
    const hand = async (): Promise<void> => {
      while (!over.signal.aborted && (Date.now() < startedAtMs + seconds * 1000 || !isEnough())) {
        const { value: action, done } = await actions.next();
        if (done === true) return;
        await this.#act(action);
        await sleep(random() * PAUSE_MS);
      }
    };
    const acting = Promise.all(Array.from({ length: HANDS }, hand))
      .finally(() => {
        this.#lastedMs = Date.now() - startedAtMs;
        over.abort();
      })
      .then(() => spying);
    await Promise.race([acting, watching]);
    // After a violation a hand or the spy may wait for an answer that does not come: the test ends without them.
    if (this.#world.violations(startedAtMs).violations.length === 0) {
      await acting;
      await this.#world.spy.readAll();
      await sleep(LOOK_EVERY_MS + 500);
      await this.#world.readRedis();
    }
    this.#violations = this.#world.violations(startedAtMs).violations;
    if (this.#violations.length > 0) await this.#untilTold(startedAtMs);
    return this.#violations;
  }

  /** How to see a violation again: the seed, the last actions, and a file of all of them. */
  async report(): Promise<string> {
    const { seed } = this.#options;
    const path = join(tmpdir(), `hostile-actions-${seed}-${process.pid}.json`);
    await writeFile(path, JSON.stringify(this.#done.map(({ action }) => action)));
    const last = this.#done
      .slice(-LAST_ACTIONS)
      .map(({ action, atMs, status }) => `${new Date(atMs).toISOString()} ${status ?? ''} ${describeAction(action)}`);
    return [
      `TEST_SEED=${seed}; ${this.#done.length} actions, again by HOSTILE_ACTIONS=${path}`,
      ...last,
      this.#world.evidence(),
    ].join('\n');
  }

  async #act(action: Action): Promise<void> {
    const atMs = Date.now();
    const reply = await this.#world.act(action).catch((error: unknown) => {
      // The apiserver ends a connection on which it is sent too much.
      return { status: 0, text: String(error) };
    });
    this.#done.push({ atMs, action, status: reply?.status });
  }

  async *#actions(): AsyncGenerator<Action, undefined> {
    const { recording, seed } = this.#options;
    if (recording !== undefined) {
      yield* JSON.parse(await readFile(recording, 'utf8')) as Action[];
      return undefined;
    }
    for (let round = 0; ; round += 1) yield* fc.sample(action(), { seed: seed + round, numRuns: 100 });
  }

  /**
   * Ends the campaign at the first violation that two looks find: how slow the processors were at that time is known a
   * little later, and may explain it.
   */
  async #watch(startedAtMs: number, over: AbortController): Promise<void> {
    let looks = 0;
    while (!over.signal.aborted) {
      await sleep(LOOK_EVERY_MS);
      await this.#world.readRedis();
      looks = this.#world.violations(startedAtMs).violations.length > 0 ? looks + 1 : 0;
      if (looks > 1) over.abort();
    }
  }

  async #spy(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#world.spy.readAll();
      for (const [reason, count] of Object.entries(await this.#world.conditions())) {
        this.conditions.set(reason, (this.conditions.get(reason) ?? 0) + count);
      }
      await sleep(SPY_EVERY_MS);
    }
  }

  /** A gateway that stands still must say so: given the time for it, and no longer disturbed. */
  async #untilTold(startedAtMs: number): Promise<void> {
    const end = Date.now() + TOLD_WITHIN_MS + 2 * LOOK_EVERY_MS + 5000;
    while (Date.now() < end && this.#world.violations(startedAtMs).findings.waiting) await sleep(LOOK_EVERY_MS);
    this.#violations = this.#world.violations(startedAtMs).violations;
  }
}
