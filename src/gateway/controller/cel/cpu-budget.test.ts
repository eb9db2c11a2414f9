import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CpuBudgets } from './cpu-budget.ts';
import { TimeLimitError } from './time-limit.ts';

/** Controllers on a processor whose time the test sets. */
class Processor {
  nowMs = 0;
  #cpuMs = 0;
  /** The length of the kernel's ticks. Default 0: it counts exactly. */
  readonly #tickMs: number;
  readonly budgets: CpuBudgets;
  /** The processor time that evaluations have received so far. */
  givenMs = 0;

  constructor(tickMs = 0) {
    this.#tickMs = tickMs;
    const threadMs = (): number => (tickMs === 0 ? this.#cpuMs : Math.floor(this.#cpuMs / tickMs) * this.#tickMs);
    const sleep = async (ms: number): Promise<void> => this.wait(ms);
    this.budgets = new CpuBudgets({ now: () => this.nowMs, threadMs, sleep });
  }

  work(ms: number): void {
    this.nowMs += ms;
    this.#cpuMs += ms;
  }

  wait(ms: number): void {
    this.nowMs += ms;
  }

  /** Makes a controller evaluate expressions on one change. @returns the time that each evaluation received. */
  change(controller: string, wantedMs: readonly number[], tenant = controller): number[] {
    const budget = this.budgets.of(controller, tenant);
    return budget.run(() =>
      wantedMs.map((wanted) => {
        const given = Math.min(wanted, budget.limitMs);
        this.work(given);
        this.givenMs += given;
        return given;
      }),
    );
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);

/**
 * The most time that all controllers together may use: the common budget, the reserved time with the savings of each
 * tenant, and the free time.
 */
const bound = (ms: number, tenants: number): number =>
  400 + (100 * ms) / 1000 + (50 * ms) / 1000 + 20 * tenants + 1000 + (100 * ms) / 1000;

const never = new AbortController().signal;

it('work that can wait has 50 ms a second for each tenant, and takes nothing from lookups', async () => {
  const processor = new Processor();
  const budget = processor.budgets.of('web', 'shop');
  for (let part = 0; part < 200; part += 1) {
    await (part % 2 === 0 ? budget : processor.budgets.of('api', 'shop')).background(5, never);
    expect(budget.limitMs).toBe(100);
  }
  expect(processor.nowMs).toBeGreaterThan(((200 * 5 - 100) / 50) * 1000 - 200);
  expect(processor.nowMs).toBeLessThan(((200 * 5) / 50) * 1000);
  const before = processor.nowMs;
  await processor.budgets.of('other').background(50, never);
  expect(processor.nowMs).toBe(before);
});

it('work of all tenants that can wait has 200 ms a second, in turns, and ends with its signal', async () => {
  const processor = new Processor();
  const done: string[] = [];
  const tenants = Array.from({ length: 20 }, (_, at) => `t${at}`);
  const work = async (tenant: string): Promise<void> => {
    for (let part = 0; part < 20; part += 1) {
      await processor.budgets.of(`${tenant}/c`, tenant).background(5, never);
      done.push(tenant);
    }
  };
  await Promise.all(tenants.map(work));
  // 20 times 100 ms, of which 200 are there at once.
  expect(processor.nowMs).toBeGreaterThan(((20 * 20 * 5 - 200) / 200) * 1000 - 100);
  const counts = tenants.map((tenant) => done.slice(0, 200).filter((each) => each === tenant).length);
  expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(2);
  const stopped = new AbortController();
  await processor.budgets.of('t0/c', 't0').background(10_000, stopped.signal);
  const waiting = processor.budgets.of('t0/c', 't0').background(5, stopped.signal);
  stopped.abort(new Error('the controller has stopped'));
  await expect(waiting).rejects.toThrow('has stopped');
});

describe('keys that a change wakes', () => {
  it('cost nothing as long as they are few', () => {
    const budget = new Processor().budgets.of('web');
    for (let change = 0; change < 1000; change += 1) budget.chargeKeys(10);
    expect(budget.isFull).toBe(true);
  });

  it('are waited for by a controller that wakes many, and by no other tenant', () => {
    const processor = new Processor();
    const budget = processor.budgets.of('a.many', 'a.');
    const woken = (): boolean => {
      try {
        budget.chargeKeys(5010);
        return true;
      } catch (error) {
        expect(error).toBeInstanceOf(TimeLimitError);
        return false;
      }
    };
    expect([woken(), woken(), woken()]).toEqual([true, true, false]);
    expect(processor.change('b.few', [1], 'b.')).toEqual([1]);
    // The debt of 200 ms, and half of the 300, at 50 ms a second.
    processor.wait(6900);
    expect(woken()).toBe(false);
    processor.wait(200);
    expect(woken()).toBe(true);
  });
});

describe('work that waits for its turn', () => {
  /** Work that takes `ms`, and returns the time of its begin. */
  const worked = (processor: Processor, budget: ReturnType<CpuBudgets['of']>, ms: number): Promise<number> =>
    budget.inTurn(() => {
      const at = processor.nowMs;
      processor.work(ms);
      return at;
    });

  it('begins at once while the budget is not used up', async () => {
    const processor = new Processor();
    const budget = processor.budgets.of('web');
    expect(await Promise.all(Array.from({ length: 5 }, () => worked(processor, budget, 10)))).toEqual([
      0, 10, 20, 30, 40,
    ]);
  });

  it('takes no more than the budget, in its order, however much comes at once', async () => {
    const processor = new Processor();
    const budget = processor.budgets.of('a.web', 'a.');
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 200 }, async (_, at) => {
        await worked(processor, budget, 10);
        order.push(at);
      }),
    );
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    // 2,000 ms of work at 50 ms a second, with 300 ms saved up and at most 100 ms of debt; 1,000 ms were free.
    expect(processor.nowMs).toBeGreaterThan(((2000 - 400 - 0.05 * 200) / 50) * 1000);
    expect(processor.budgets.of('b.web', 'b.').limitMs).toBeGreaterThan(0);
  });

  it('waits until what was charged is paid, and not for what was given back', async () => {
    const processor = new Processor();
    const budget = processor.budgets.of('web');
    const giveBack = budget.charge(1000);
    giveBack(1000);
    expect(await worked(processor, budget, 1)).toBe(0);
    budget.charge(1000);
    // 701 ms of debt and half of the burst.
    expect(await worked(processor, budget, 1)).toBeGreaterThan(((701 + 150 - 1) / 50) * 1000);
  });

  it('is given up when its turn does not come in time, and what is behind it goes on', async () => {
    const processor = new Processor();
    const budget = processor.budgets.of('web');
    budget.charge(1000);
    const order: string[] = [];
    const waiting = (name: string, withinMs?: number): Promise<unknown> =>
      budget
        .inTurn(() => order.push(name), withinMs)
        .catch((error: unknown) => order.push(`${name}: ${String(error)}`));
    await Promise.all([waiting('first'), waiting('hasty', 5000), waiting('patient', 60_000)]);
    expect(order).toEqual([
      'hasty: TimeLimitError: has used up its processor time, and its turn did not come in time',
      'first',
      'patient',
    ]);
  });

  it('goes on after work that has thrown', async () => {
    const budget = new Processor().budgets.of('web');
    budget.charge(400);
    const failing = budget.inTurn(() => {
      throw new Error('no');
    });
    const next = budget.inTurn(() => 'done');
    await expect(failing).rejects.toThrow('no');
    expect(await next).toBe('done');
  });
});

describe('the processor time of one controller', () => {
  it('is no more for many expressions than for one', () => {
    const [one, many] = [new Processor(), new Processor()];
    let [ofOne, ofMany] = [0, 0];
    for (let second = 0; second < 60; second += 1) {
      ofOne += sum(one.change('one', [100]));
      ofMany += sum(
        many.change(
          'many',
          Array.from({ length: 32 }, () => 100),
        ),
      );
      one.wait(1000);
      many.wait(1000);
    }
    expect(ofMany).toBeLessThanOrEqual(ofOne + 100);
    expect(ofMany).toBeLessThanOrEqual(301 + (50 * many.nowMs) / 1000);
    // The controller with many expressions is still served.
    expect(ofMany).toBeGreaterThan(2000);
  });

  it('is 100 ms at most for one change, whatever is saved up', () => {
    const processor = new Processor();
    processor.wait(60_000);
    expect(sum(processor.change('web', [30, 30, 30, 30, 30]))).toBeLessThanOrEqual(101);
  });

  it('comes back by half before it is given out again, and never by little', () => {
    const processor = new Processor();
    for (let count = 0; count < 5; count += 1) processor.change('web', [100]);
    const budget = processor.budgets.of('web');
    for (let ms = 0; ms < 10_000; ms += 10) {
      expect(budget.limitMs === 0 || budget.limitMs >= 5).toBe(true);
      if (budget.limitMs > 0) break;
      processor.wait(10);
    }
    expect(budget.limitMs).toBe(100);
  });

  it('stays the same when the controller is declared anew, and is forgotten when it is full', () => {
    const processor = new Processor();
    for (let count = 0; count < 5; count += 1) processor.change('web', [100]);
    const before = processor.budgets.of('web');
    expect(before.limitMs).toBe(0);
    processor.budgets.of('another');
    expect(processor.budgets.of('web')).toBe(before);
    processor.wait(60_000);
    processor.budgets.of('a third');
    expect(processor.budgets.of('web')).not.toBe(before);
  });

  it('costs nothing for changes that take as little as a change takes anyway', () => {
    const processor = new Processor();
    for (let count = 0; count < 30_000; count += 1) processor.change('web', [0.03]);
    expect(processor.budgets.of('web').limitMs).toBe(100);
  });

  it('is used up by many small evaluations, too', () => {
    const processor = new Processor();
    let given = 0;
    for (let second = 0; second < 10; second += 1) {
      for (let count = 0; count < 1000; count += 1) given += sum(processor.change('web', [0.9]));
      processor.wait(100);
    }
    expect(given).toBeLessThan(bound(processor.nowMs, 1));
    expect(given).toBeLessThan(4000);
  });

  it.each([0, 4, 10])('is counted where the kernel counts in ticks of %i ms', (tickMs) => {
    const processor = new Processor(tickMs);
    const budget = processor.budgets.of('web');
    let worked = 0;
    while (budget.limitMs > 0 && worked < 1000) {
      budget.run(() => processor.work(3));
      worked += 3;
    }
    // The controller's burst is 300 ms. The count is off by a few ticks at most.
    expect(worked).toBeGreaterThan(290);
    expect(worked).toBeLessThan(360);
  });

  it('is not that for which the thread waited', () => {
    const processor = new Processor(4);
    const budget = processor.budgets.of('web');
    for (let count = 0; count < 100; count += 1) {
      budget.run(() => {
        processor.work(0.1);
        processor.wait(50);
      });
    }
    // The controller's own budget does not pay for the waits. Only the common budget does.
    expect(budget.limitMs).toBeGreaterThanOrEqual(5);
    processor.wait(5000);
    expect(budget.limitMs).toBe(100);
  });

  it('ends work that takes longer, and begins none when it is used up', () => {
    const budget = new CpuBudgets().of('web');
    const spin = (): never => {
      for (;;);
    };
    const failures: string[] = [];
    while (failures.length < 500 && !failures.at(-1)?.startsWith('has used up')) {
      try {
        budget.within(spin, () => false);
      } catch (error) {
        expect(error).toBeInstanceOf(TimeLimitError);
        failures.push((error as Error).message);
      }
    }
    // Less than the whole limit is left when another program has the processor in between.
    expect(failures[0]).toMatch(/^took longer than \d+ ms$/);
    expect(failures.at(-1)).toBe('has used up its processor time and is left out for a while');
  });
});

describe('the processor time of all controllers', () => {
  it('is bounded, however many they are', () => {
    const processor = new Processor();
    const hostile = Array.from({ length: 200 }, (_, at) => `hostile-${at}`);
    while (processor.nowMs < 60_000) {
      for (const each of hostile) processor.change(each, [100, 100], 'hostile');
      processor.wait(1000);
    }
    expect(processor.givenMs).toBeLessThan(bound(processor.nowMs, 1));
  });

  it('serves a tenant that asks for little, whatever the others use and however many controllers they have', () => {
    const processor = new Processor();
    const hostile = Array.from({ length: 50 }, (_, at) => `hostile.${at}`);
    let served = 0;
    for (let round = 0; round < 2000; round += 1) {
      for (const each of hostile) processor.change(each, [100, 100], 'hostile.');
      expect(processor.change('victim.web', [0.2], 'victim.')).toEqual([0.2]);
      // 4 ms is more than the free time of one change, and almost the limit of a share.
      if (round % 50 === 0) {
        expect(processor.change('victim.web', [4], 'victim.')).toEqual([4]);
        served += 1;
      }
      processor.wait(20);
    }
    expect(served).toBe(40);
  });

  it('is true for any history: a bound for all, one for each, and small tenants served', () => {
    const action = fc.record({
      controller: fc.nat(7),
      wanted: fc.array(fc.oneof(fc.constantFrom(0.02, 0.9, 5, 100), fc.double({ min: 0, max: 120, noNaN: true })), {
        minLength: 1,
        maxLength: 8,
      }),
      waitMs: fc.oneof(fc.constantFrom(0, 0, 0, 1, 20), fc.nat(2000)),
      repeat: fc.integer({ min: 1, max: 30 }),
    });
    let asked = 0;
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
        const processor = new Processor();
        const givenTo = new Map<string, number>();
        let modestAtMs = 0;
        for (const { controller, wanted, waitMs, repeat } of actions) {
          const name = `t${controller % 4}.c${controller}`;
          for (let count = 0; count < repeat; count += 1) {
            const given = sum(processor.change(name, wanted, `t${controller % 4}.`));
            // Sums of fractions are rounded.
            expect(given).toBeLessThanOrEqual(101 + 1e-9);
            givenTo.set(name, (givenTo.get(name) ?? 0) + given);
            // The modest tenant asks for 1 ms every half second.
            if (processor.nowMs - modestAtMs >= 500) {
              modestAtMs = processor.nowMs;
              asked += 1;
              expect(processor.change('modest.web', [1], 'modest.')).toEqual([1]);
            }
          }
          processor.wait(waitMs);
        }
        // The limit is rounded up, so each controller may owe a millisecond.
        expect(processor.givenMs).toBeLessThanOrEqual(bound(processor.nowMs, 5) + 6);
        for (const given of givenTo.values()) {
          expect(given).toBeLessThanOrEqual(
            301 + (50 * processor.nowMs) / 1000 + 1000 + (100 * processor.nowMs) / 1000,
          );
        }
      }),
      { numRuns: 500 },
    );
    expect(asked).toBeGreaterThan(500);
  });
});
