import { describe, expect, it } from 'vitest';
import { GatewayRuns } from '../records/own-runs.ts';
import { type StartRate, StartRates } from './start-rates.ts';

/** How many runs of a tenant begin within `seconds`, if keys are always ready. */
function begun(rate: StartRate, clock: { nowMs: number }, seconds: number): number {
  let count = 0;
  for (let tick = 0; tick <= seconds * 50; tick += 1) {
    const room = Math.max(0, Math.floor(rate.room()));
    rate.take(room);
    count += room;
    clock.nowMs += 20;
  }
  return count;
}

function rates() {
  const clock = { nowMs: 0 };
  const runs = new GatewayRuns();
  return { clock, runs, of: new StartRates({ now: () => clock.nowMs }, runs) };
}

describe('StartRates', () => {
  it('bounds what one tenant begins, however often it asks', () => {
    const { clock, of } = rates();
    // A burst, and 1,000 a second.
    expect(begun(of.of('a'), clock, 10)).toBeCloseTo(12_000, -2);
  });

  it('counts all controllers of a tenant as one, whenever they are declared', () => {
    const { clock, of } = rates();
    const controllers = Array.from({ length: 50 }, () => {
      // An idle tenant is forgotten when another one comes.
      clock.nowMs += 60_000;
      of.of(`other-${clock.nowMs}`).room();
      return of.of('a');
    });
    const count = controllers.reduce((sum, rate) => {
      const room = Math.max(0, Math.floor(rate.room()));
      rate.take(room);
      return sum + room;
    }, 0);
    expect(count).toBe(2000);
  });

  it('bounds the runs that a tenant has in flight, and begins more when some have ended', () => {
    const { clock, of } = rates();
    const controllers = Array.from({ length: 50 }, () => of.of('a'));
    let inFlight = 0;
    const beginAll = (): void => {
      for (let second = 0; second < 60; second += 1) {
        for (const each of controllers) {
          const room = Math.max(0, Math.floor(each.room()));
          each.take(room);
          each.begin(room);
          inFlight += room;
        }
        clock.nowMs += 1000;
      }
    };
    beginAll();
    expect(inFlight).toBe(2000);
    expect(controllers.map((each) => each.fullReason()?.slice(0, 50))).toEqual(
      controllers.map(() => 'this gateway has as many runs in flight as it may,'),
    );
    expect(of.of('other').fullReason()).toBeUndefined();
    expect(of.of('other').room()).toBeGreaterThan(1000);
    controllers[0]?.end(500);
    expect(controllers[0]?.fullReason()).toBeUndefined();
    inFlight -= 500;
    beginAll();
    expect(inFlight).toBe(2000);
  });

  it('leaves each tenant some runs in flight when others have all of them', () => {
    const { clock, of } = rates();
    for (let tenant = 0; tenant < 10; tenant += 1) {
      of.of(`tenant-${tenant}`).begin(Math.max(0, Math.floor(of.of(`tenant-${tenant}`).room())));
      clock.nowMs += 60_000;
    }
    const victim = of.of('victim');
    expect(victim.room()).toBe(50);
    victim.begin(50);
    expect(victim.room()).toBeLessThan(1);
  });

  it('bounds the runs of a tenant that go on without a connection, also of controllers that it has removed', () => {
    const { runs, of } = rates();
    const accept = (tenant: string, count: number): void => {
      const queue = runs.of(`${tenant}queue-${runs.goingOn()}`);
      for (let run = 1; run <= count; run += 1) {
        queue.begin({ key: `k/${run}`, run, incarnation: 'i', deadlineMs: 1000 }, 0);
        queue.finish({ key: `k/${run}`, run, finish: { kind: 'accepted', untilMs: 86_400_000 } });
      }
    };
    accept('a.', 19_000);
    expect(of.of('a.').room()).toBe(1000);
    runs.remove('a.queue-0');
    accept('a.', 1000);
    expect(of.of('a.').room()).toBeLessThan(1);
    expect(of.of('a.').fullReason()).toContain('that go on after their answer');
    expect(of.of('b.').room()).toBe(2000);
    for (const tenant of ['b.', 'c.', 'd.', 'e.']) accept(tenant, 20_000);
    // All have what there is for all: this is reserved.
    expect(of.of('victim.').room()).toBe(500);
    expect(of.of('victim.').fullReason()).toBeUndefined();
  });

  it('leaves each tenant its own when all together begin too many', () => {
    const { clock, of } = rates();
    const many = Array.from({ length: 20 }, (_, at) => of.of(`tenant-${at}`));
    for (let tick = 0; tick < 500; tick += 1) {
      for (const each of many) each.take(Math.max(0, Math.floor(each.room())));
      clock.nowMs += 20;
    }
    // A tenant that has begun no runs yet.
    const victim = of.of('victim');
    for (let second = 0; second < 10; second += 1) {
      expect(victim.room()).toBeGreaterThanOrEqual(40);
      victim.take(40);
      clock.nowMs += 1000;
    }
  });
});
