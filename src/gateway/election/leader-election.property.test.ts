import { PassThrough, Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { ModelLease, type Passage } from '../../../test/harness/model-lease.ts';
import { newSeed, randomOf } from '../../../test/harness/random.ts';
import { ApiError, type Clock, silentLogger, silentMetrics } from '../../core/index.ts';
import { LeaderElection } from './leader-election.ts';

const HISTORIES = 40;
/** Real time of a history with faults, and afterwards without. */
const FAULTY_MS = 180_000;
const CALM_MS = 60_000;

/** Real time, and what happens at which time. */
class World {
  nowMs = 0;
  readonly random: () => number;
  #order = 0;
  #events: { readonly atMs: number; readonly order: number; readonly run: () => void }[] = [];

  constructor(seed: number) {
    this.random = randomOf(seed);
  }

  at(atMs: number, run: () => void): void {
    this.#events.push({ atMs: Math.max(atMs, this.nowMs), order: (this.#order += 1), run });
  }

  between(low: number, high: number): number {
    return low + this.random() * (high - low);
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  /** Runs everything until `endMs`, and `check` after each event. */
  async run(endMs: number, check: () => void): Promise<void> {
    for (;;) {
      let next = 0;
      for (const [index, { atMs, order }] of this.#events.entries()) {
        const first = this.#events[next];
        if (first && (atMs < first.atMs || (atMs === first.atMs && order < first.order))) next = index;
      }
      const event = this.#events[next];
      if (!event || event.atMs > endMs) break;
      this.#events.splice(next, 1);
      this.nowMs = event.atMs;
      event.run();
      await new Promise((resolve) => setImmediate(resolve));
      check();
    }
    this.nowMs = endMs;
  }
}

/**
 * A process on a machine of its own: its monotonic clock begins anywhere and runs up to 10 % too fast or too slow, and
 * its wall clock jumps. A frozen process does nothing, but the requests that it has sent still arrive.
 */
class Machine implements Clock {
  readonly election: LeaderElection;
  leaderships = 0;
  /** `onLead` calls that have not ended. */
  working = 0;
  readonly #world: World;
  readonly #offsetMs: number;
  readonly #rate: number;
  #wallOffsetMs = 0;
  #frozenUntilMs = 0;

  constructor(world: World, server: ModelLease, faults: Faults) {
    this.#world = world;
    this.#offsetMs = world.between(0, 1e9);
    this.#rate = world.between(0.9, 1.1);
    this.election = new LeaderElection({
      runtime: { clock: this, logger: silentLogger, metrics: silentMetrics },
      client: server.client((passage) => this.#send(passage, faults)),
      lease: { namespace: 'foo', name: 'bar' },
      timing: { leaseMs: 15_000, renewMs: 10_000, retryMs: 2000 },
      random: world.random,
    });
  }

  now(): number {
    return Math.floor(this.#offsetMs + this.#world.nowMs * this.#rate);
  }

  wallNow(): number {
    return Math.floor(1e12 + this.#world.nowMs + this.#wallOffsetMs);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      signal?.addEventListener('abort', () => resolve(), { once: true });
      this.#later(ms / this.#rate, resolve);
    });
  }

  get isFrozen(): boolean {
    return this.#world.nowMs < this.#frozenUntilMs;
  }

  freeze(ms: number): void {
    this.#frozenUntilMs = this.#world.nowMs + ms;
  }

  setWallClock(offsetMs: number): void {
    this.#wallOffsetMs = offsetMs;
  }

  /** @param successor returns the machine that gets the Lease at a handover, if there is one. */
  start(stop: AbortSignal, successor: () => Machine | undefined): Promise<void> {
    const onLead = async (signal: AbortSignal): Promise<string | undefined> => {
      this.leaderships += 1;
      this.working += 1;
      const next = successor();
      const ended = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await (next ? this.sleep(this.#world.between(0, 20_000), signal) : ended);
      await this.sleep(this.#world.between(0, 3000));
      this.working -= 1;
      return next?.election.identity;
    };
    return this.election.run({ onLead }, stop);
  }

  /** Something happens in this process, once it is not frozen. */
  #later(ms: number, run: () => void): void {
    const deliver = (): void => {
      if (this.isFrozen) this.#world.at(this.#frozenUntilMs, deliver);
      else run();
    };
    this.#world.at(this.#world.nowMs + ms, deliver);
  }

  #send(passage: Passage, faults: Faults): Promise<unknown> {
    const world = this.#world;
    return new Promise((resolve, reject) => {
      if (faults.happens('lostRequest')) return;
      const isRefused = faults.happens('refused');
      // Between a write and its answer: the answer is older than it seems.
      const isFreezing = passage.verb !== 'get' && faults.happens('freezeInWrite');
      // A write may arrive long after its sender has given it up. It then meets a newer version.
      const isLate = passage.verb === 'update' && faults.happens('lateRequest');
      const isAnswerLost = faults.happens('lostAnswer');
      const answerMs = faults.happens('lateAnswer') ? world.between(1000, 20_000) : world.between(1, 50);
      world.at(world.nowMs + (isLate ? world.between(1000, 30_000) : world.between(1, 50)), () => {
        const answer = isRefused
          ? Promise.reject(new ApiError({ code: [403, 409, 429, 500][Math.floor(world.random() * 4)] ?? 500 }))
          : passage.arrive();
        if (isFreezing) this.freeze(world.between(500, 40_000));
        const back = (deliver: () => void): void => {
          if (!isAnswerLost) this.#later(answerMs, deliver);
        };
        answer.then(
          (value) => back(() => resolve(value instanceof Readable ? this.#received(value) : value)),
          (error: unknown) =>
            back(() => reject(error instanceof Error ? error : new Error('rejected', { cause: error }))),
        );
      });
    });
  }

  /** The stream as this process reads it: not while it is frozen. */
  #received(stream: Readable): Readable {
    const received = new PassThrough();
    received.on('error', () => {});
    stream.on('data', (chunk) => this.#later(1, () => received.writable && received.write(chunk)));
    stream.once('close', () => received.destroy(new Error('closed')));
    return received;
  }
}

const FAULTS = {
  lostRequest: 0.06,
  lostAnswer: 0.06,
  lateRequest: 0.05,
  lateAnswer: 0.06,
  freezeInWrite: 0.04,
  refused: 0.08,
  /** Not a fault: the leader hands the Lease over, to a process that may be frozen. */
  handOver: 0.3,
};

/** The probability of each fault, and how often it has happened. */
class Faults {
  readonly counts = new Map<string, number>();
  isOn = true;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  happens(fault: keyof typeof FAULTS): boolean {
    const happens = this.isOn && this.#world.chance(FAULTS[fault]);
    if (happens) this.count(fault);
    return happens;
  }

  count(fault: string): void {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
  }
}

interface History {
  readonly leaderships: number;
  readonly handOvers: number;
  readonly faults: ReadonlyMap<string, number>;
}

async function history(seed: number): Promise<History> {
  const world = new World(seed);
  const server = new ModelLease();
  const faults = new Faults(world);
  const stop = new AbortController();
  const machines = Array.from({ length: 2 + Math.floor(world.random() * 3) }, () => new Machine(world, server, faults));
  let last: Machine | undefined;
  let handOvers = 0;
  const check = (): void => {
    const leading = machines.filter(({ election }) => election.isLeading());
    if (leading.length > 1) throw new Error(`${leading.length} processes lead at ${world.nowMs} ms`);
    if (machines.some(({ working }) => working > 1)) throw new Error('a process works for two leaderships at once');
    if (leading[0] && leading[0] !== last) {
      if (last) handOvers += 1;
      last = leading[0];
    }
  };
  const disturb = (): void => {
    if (!faults.isOn) return;
    const machine = machines[Math.floor(world.random() * machines.length)];
    const kind = Math.floor(world.random() * 4);
    // Of the leader most of all.
    const target = world.chance(0.6) ? (machines.find(({ election }) => election.isLeading()) ?? machine) : machine;
    if (kind <= 1) target?.freeze(world.between(500, 40_000));
    if (kind === 2) target?.setWallClock(world.between(-1e8, 1e8));
    if (kind === 3 && server.stored) server.write(server.stored.spec, { labels: { changed: 'by a person' } });
    faults.count(['freeze', 'freeze', 'wallClock', 'foreignWrite'][kind] ?? '');
    world.at(world.nowMs + world.between(500, 12_000), disturb);
  };
  const successor = (): Machine | undefined =>
    faults.happens('handOver') ? machines[Math.floor(world.random() * machines.length)] : undefined;
  const running = machines.map((machine) => machine.start(stop.signal, successor));
  world.at(1000, disturb);
  await world.run(FAULTY_MS, check);
  faults.isOn = false;
  await world.run(FAULTY_MS + CALM_MS, check);
  expect(machines.filter(({ election }) => election.isLeading())).toHaveLength(1);
  stop.abort();
  await world.run(FAULTY_MS + 2 * CALM_MS, check);
  await Promise.all(running);
  expect(server.holder).toBe('');
  const leaderships = machines.reduce((sum, machine) => sum + machine.leaderships, 0);
  return { leaderships, handOvers, faults: faults.counts };
}

it('never two processes lead at once, whatever happens to processes, clocks, requests and answers', async () => {
  const seed = newSeed();
  process.stdout.write(`leader election: TEST_SEED=${seed}\n`);
  const total = new Map<string, number>();
  let [leaderships, handOvers] = [0, 0];
  for (let index = 0; index < HISTORIES; index += 1) {
    const one = await history(seed + index).catch((error: unknown) => {
      throw new Error(`history ${index} of TEST_SEED=${seed}`, { cause: error });
    });
    leaderships += one.leaderships;
    handOvers += one.handOvers;
    for (const [fault, count] of one.faults) total.set(fault, (total.get(fault) ?? 0) + count);
  }
  const counts = JSON.stringify(Object.fromEntries(total));
  process.stdout.write(`${leaderships} leaderships, ${handOvers} hand-overs, ${counts}\n`);
  // Else the histories would not have put the question.
  expect(handOvers).toBeGreaterThan(HISTORIES);
  for (const fault of [...Object.keys(FAULTS), 'freeze', 'wallClock', 'foreignWrite']) {
    expect(total.get(fault), fault).toBeGreaterThan(HISTORIES / 2);
  }
});
