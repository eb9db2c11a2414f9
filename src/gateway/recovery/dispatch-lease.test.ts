import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApiError, type Clock, silentLogger } from '../../core/index.ts';
import type { ApiClient, ApiRequest } from '../../ground/apiserver/api-client.ts';
import { DispatchLease, type OtherRuns, UNKNOWN } from './dispatch-lease.ts';

interface Stored {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, string>>;
}

/** An apiserver with one Lease: reads, conditional writes and conditional deletes. */
class OneLease {
  stored: Stored | undefined;
  refused = false;
  #version = 0;

  readonly client = { json: async (request: ApiRequest) => this.#answer(request) } as Pick<ApiClient, 'json'>;

  #answer({ method = 'GET', body }: ApiRequest): unknown {
    if (this.refused) throw new ApiError({ code: 403, message: 'forbidden' });
    const found = this.stored;
    const { metadata, preconditions, spec } = (body ?? {}) as Partial<Stored> & { preconditions?: Stored['metadata'] };
    const expected = preconditions?.resourceVersion ?? metadata?.resourceVersion;
    if (method === 'GET' && !found) throw new ApiError({ code: 404 });
    if (method === 'GET') return found;
    if (expected !== found?.metadata.resourceVersion) throw new ApiError({ code: 409, message: 'conflict' });
    if (method === 'DELETE') return (this.stored = undefined);
    this.#version += 1;
    const uid = found?.metadata.uid ?? `uid-${this.#version}`;
    const { annotations = {} } = metadata ?? {};
    this.stored = { metadata: { uid, resourceVersion: String(this.#version), annotations }, spec: spec ?? {} };
    return this.stored;
  }
}

class ManualClock implements Clock {
  nowMs = 1_000_000_000_000;
  now = (): number => this.nowMs;
  wallNow = (): number => this.nowMs;
  sleep = async (): Promise<void> => {};
}

let count = 0;

function leaseOf(server: OneLease, clock: Clock, gateway = `gateway-${(count += 1)}`): DispatchLease {
  return new DispatchLease({
    runtime: { clock, logger: silentLogger },
    client: server.client,
    location: { keyPrefix: 'levelhook', registryKey: 'registry' },
    clusterId: undefined,
    gateway,
  });
}

interface ModelGateway {
  readonly gateway: string;
  readonly lease: DispatchLease;
  /** The Redis process that it has met last. */
  checked: string | undefined;
}

describe('DispatchLease', () => {
  it('tells of no runs on a cluster without one, and after an ordered stop', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const lease = leaseOf(server, clock);
    expect((await lease.take('one')).beforeMs).toBe(0);
    expect(server.stored?.spec['holderIdentity']).toBe('one');
    await lease.release(0);
    expect(server.stored).toBeUndefined();
    expect((await leaseOf(server, clock).take('two')).beforeMs).toBe(0);
  });

  it('tells of runs until now after a gateway that was killed', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    await leaseOf(server, clock).take('one');
    clock.nowMs += 60_000;
    expect((await leaseOf(server, clock).take('two')).beforeMs).toBe(clock.nowMs);
  });

  it('tells of runs until the stop, when some went on then', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const lease = leaseOf(server, clock);
    await lease.take('one');
    const stoppedMs = clock.nowMs;
    await lease.release(stoppedMs);
    clock.nowMs += 5000;
    expect((await leaseOf(server, clock).take('two')).beforeMs).toBe(stoppedMs);
  });

  it('is released by the last gateway only', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const [first, second] = [leaseOf(server, clock), leaseOf(server, clock)];
    await first.take('one');
    await second.take('one');
    await first.release(0);
    expect(server.stored?.spec['holderIdentity']).toBe('one');
    await second.release(0);
    expect(server.stored).toBeUndefined();
  });

  it('is not released beside a gateway that was killed', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    await leaseOf(server, clock, 'killed').take('one');
    const left = leaseOf(server, clock);
    await left.take('one');
    await left.release(0);
    expect(server.stored?.spec['holderIdentity']).toBe('one');
    clock.nowMs += 1000;
    const { others } = await leaseOf(server, clock).take('two');
    expect(others).toEqual([{ gateway: 'killed', beforeMs: clock.nowMs }]);
  });

  it('takes a Lease of an earlier build for one of any gateways', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    server.stored = { metadata: { uid: 'u', resourceVersion: '1' }, spec: { holderIdentity: 'one' } };
    const lease = leaseOf(server, clock, 'a');
    expect((await lease.take('one')).others).toEqual([{ gateway: UNKNOWN, beforeMs: clock.nowMs }]);
    clock.nowMs += 1000;
    expect((await lease.take('two')).others).toEqual([{ gateway: UNKNOWN, beforeMs: clock.nowMs }]);
    const metMs = clock.nowMs;
    clock.nowMs += 1000;
    expect((await lease.take('three')).others).toEqual([{ gateway: UNKNOWN, beforeMs: metMs }]);
    await lease.release(0);
    // It has not claimed a process since.
    expect(Object.keys(server.stored.spec)).toEqual(['renewTime']);
  });

  it('counts each new Redis process as one with unknown runs where it is forbidden', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    server.refused = true;
    const lease = leaseOf(server, clock);
    expect((await lease.take('one')).beforeMs).toBe(clock.nowMs);
    clock.nowMs += 1;
    expect((await lease.take('two')).beforeMs).toBe(clock.nowMs);
    await lease.release(0);
  });

  it('knows of its own runs, whatever has become of the Lease', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const lease = leaseOf(server, clock);
    await lease.take('one');
    server.stored = undefined;
    clock.nowMs += 1;
    expect((await lease.take('two')).beforeMs).toBe(clock.nowMs);
  });

  it('knows which gateways can have started runs, and before when', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const [a, b] = [leaseOf(server, clock, 'a'), leaseOf(server, clock, 'b')];
    const take = async (which: DispatchLease, runId: string): Promise<readonly OtherRuns[]> => {
      clock.nowMs += 1000;
      return (await which.take(runId)).others;
    };
    expect(await take(a, 'one')).toEqual([]);
    expect(await take(a, 'two')).toEqual([]);
    // Asked again, for want of an answer of Redis.
    expect(await take(a, 'two')).toEqual([]);
    // It may go on there.
    expect(await take(b, 'two')).toEqual([{ gateway: 'a', beforeMs: clock.nowMs }]);
    expect(await take(a, 'three')).toEqual([{ gateway: 'b', beforeMs: clock.nowMs }]);
    const metMs = clock.nowMs;
    // The other has not started a run since.
    expect(await take(a, 'four')).toEqual([{ gateway: 'b', beforeMs: metMs }]);
    expect(await take(b, 'four')).toEqual([{ gateway: 'a', beforeMs: clock.nowMs }]);
    expect(await take(a, 'five')).toEqual([{ gateway: 'b', beforeMs: clock.nowMs }]);
    // Three days are longer than any run can go on.
    clock.nowMs += 3 * 86_400_000;
    expect(await take(a, 'six')).toEqual([]);
    server.refused = true;
    expect(await take(a, 'seven')).toEqual([{ gateway: UNKNOWN, beforeMs: clock.nowMs }]);
  });

  it('is taken by gateways that write at the same time', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const leases = ['a', 'b', 'c'].map((gateway) => leaseOf(server, clock, gateway));
    await Promise.all(leases.map((lease) => lease.take('one')));
    const claims = JSON.parse(server.stored?.metadata.annotations?.['levelhook.dev/gateways'] ?? '') as unknown;
    expect(claims).toEqual({ a: 'one', b: 'one', c: 'one' });
    await Promise.all(leases.map((lease) => lease.release(0)));
    expect(server.stored).toBeUndefined();
  });

  it('tells of every run that Redis does not know of, in any history of gateways, stops, kills and lost data', async () => {
    let found = 0;
    let putBack = 0;
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.constant('check' as const) },
      { weight: 4, arbitrary: fc.constant('run' as const) },
      ...(['start', 'end', 'stop', 'kill', 'lose', 'pass'] as const).map((kind) => ({
        weight: 1,
        arbitrary: fc.constant(kind),
      })),
    );
    const history = fc.array(fc.record({ step, which: fc.nat(3) }), { minLength: 40, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const [server, clock] = [new OneLease(), new ManualClock()];
        /** The Redis process, and what its registry says: since when runs are unknown, and who has put back its own. */
        let redis = { runId: 'redis-0', lostMs: undefined as number | undefined, answered: new Set<string>() };
        let runs: { startedMs: number; runId: string; gateway: string }[] = [];
        let gateways: ModelGateway[] = [];
        const begin = (): void => {
          const gateway = `gateway-${(count += 1)}`;
          gateways.push({ gateway, lease: leaseOf(server, clock, gateway), checked: undefined });
        };
        begin();
        for (const [at, { step: kind, which }] of steps.entries()) {
          clock.nowMs += 1000;
          const chosen = gateways[which % Math.max(1, gateways.length)];
          if (kind === 'start' && gateways.length < 3) begin();
          if (kind === 'pass') clock.nowMs += 600_000;
          if (kind === 'end') runs = runs.filter((_, index) => index !== which % runs.length);
          if (kind === 'lose') redis = { runId: `redis-${at + 1}`, lostMs: undefined, answered: new Set() };
          if (!chosen) continue;
          const { gateway, lease } = chosen;
          if (kind === 'run' && chosen.checked === redis.runId) {
            runs.push({ startedMs: clock.nowMs, runId: redis.runId, gateway });
          }
          if (kind === 'kill') gateways = gateways.filter((each) => each !== chosen);
          if (kind === 'stop') {
            const isOver = runs.every((run) => run.gateway !== gateway);
            await lease.release(isOver ? 0 : clock.nowMs);
            gateways = gateways.filter((each) => each !== chosen);
          }
          if (kind === 'check' && chosen.checked !== redis.runId) {
            const { beforeMs, others } = await lease.take(redis.runId);
            const latestMs = redis.lostMs ?? Infinity;
            redis.lostMs ??= beforeMs;
            chosen.checked = redis.runId;
            for (const run of runs) {
              if (run.gateway !== gateway || run.runId === redis.runId) continue;
              run.runId = redis.runId;
              putBack += 1;
            }
            redis.answered.add(gateway);
            for (const run of runs.filter(({ runId }) => runId !== redis.runId)) {
              found += 1;
              expect(redis.answered).not.toContain(run.gateway);
              const told = others.filter((each) => [run.gateway, UNKNOWN].includes(each.gateway));
              const toldMs = Math.max(0, ...told.map((each) => each.beforeMs));
              expect(run.startedMs).toBeLessThanOrEqual(Math.min(toldMs, latestMs));
            }
          }
        }
      }),
      { numRuns: 2000 },
    );
    // Else the history would not have put the question.
    expect(found).toBeGreaterThan(500);
    expect(putBack).toBeGreaterThan(100);
  });
});
