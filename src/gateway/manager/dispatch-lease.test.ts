import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApiError, type Clock, silentLogger } from '../../core/index.ts';
import type { ApiClient, ApiRequest } from '../apiserver/api-client.ts';
import { DispatchLease } from './dispatch-lease.ts';

interface Stored {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string };
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
    this.stored = { metadata: { uid, resourceVersion: String(this.#version) }, spec: spec ?? {} };
    return this.stored;
  }
}

class ManualClock implements Clock {
  nowMs = 1_000_000_000_000;
  now = (): number => this.nowMs;
  wallNow = (): number => this.nowMs;
  sleep = async (): Promise<void> => {};
}

function leaseOf(server: OneLease, clock: Clock): DispatchLease {
  return new DispatchLease({
    runtime: { clock, logger: silentLogger },
    client: server.client,
    location: { keyPrefix: 'levelhook', registryKey: 'registry' },
    clusterId: undefined,
  });
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

  it('is not released by a gateway that is not the last one, or found another on the same Redis process', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const [first, second] = [leaseOf(server, clock), leaseOf(server, clock)];
    await first.take('one');
    await second.take('one');
    await first.release(0);
    expect(server.stored?.spec['holderIdentity']).toBe('one');
    await second.release(0);
    expect(server.stored?.spec['holderIdentity']).toBe('one');
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

  it('knows since when no other gateway can have started a run', async () => {
    const [server, clock] = [new OneLease(), new ManualClock()];
    const lease = leaseOf(server, clock);
    const take = async (which: DispatchLease, runId: string): Promise<number> => {
      clock.nowMs += 1000;
      return (await which.take(runId)).othersBeforeMs;
    };
    expect(await take(lease, 'one')).toBe(0);
    expect(await take(lease, 'two')).toBe(0);
    // Asked again, for want of an answer of Redis.
    expect(await take(lease, 'two')).toBe(0);
    // Another takes it for a process that this one has never met, and may have started runs there.
    const other = leaseOf(server, clock);
    const takenMs = await take(other, 'three');
    expect(takenMs).toBe(clock.nowMs);
    expect(await take(lease, 'four')).toBe(clock.nowMs);
    const againMs = clock.nowMs;
    expect(await take(lease, 'five')).toBe(againMs);
    // Another on the same process, which may go on there.
    expect(await take(other, 'five')).toBe(clock.nowMs);
    expect(await take(other, 'six')).toBe(clock.nowMs);
    server.refused = true;
    expect(await take(other, 'seven')).toBe(clock.nowMs);
    expect(await take(other, 'eight')).toBe(clock.nowMs);
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
        /** The Redis process, and what its registry says. */
        let redis = { runId: 'redis-0', registry: undefined as number | undefined };
        let runs: { startedMs: number; runId: string; lease: DispatchLease }[] = [];
        /** Gateways, and the Redis process that each has checked. */
        let gateways: { lease: DispatchLease; checked: string | undefined; lostMs: number }[] = [
          { lease: leaseOf(server, clock), checked: undefined, lostMs: 0 },
        ];
        for (const [at, { step: kind, which }] of steps.entries()) {
          clock.nowMs += 1000;
          const gateway = gateways[which % Math.max(1, gateways.length)];
          if (kind === 'start' && gateways.length < 3)
            gateways.push({ lease: leaseOf(server, clock), checked: undefined, lostMs: 0 });
          if (kind === 'pass') clock.nowMs += 600_000;
          if (kind === 'end') runs = runs.filter((_, index) => index !== which % runs.length);
          if (kind === 'lose') redis = { runId: `redis-${at + 1}`, registry: undefined };
          if (!gateway) continue;
          if (kind === 'run' && gateway.checked === redis.runId) {
            runs.push({ startedMs: clock.nowMs, runId: redis.runId, lease: gateway.lease });
          }
          if (kind === 'kill') gateways = gateways.filter((each) => each !== gateway);
          if (kind === 'stop') {
            const isOver = runs.every(({ runId }) => runId !== redis.runId);
            const isConnected = gateway.checked === redis.runId;
            await gateway.lease.release(isOver && isConnected ? gateway.lostMs : clock.nowMs);
            gateways = gateways.filter((each) => each !== gateway);
          }
          if (kind === 'check' && gateway.checked !== redis.runId) {
            const { beforeMs, othersBeforeMs } = await gateway.lease.take(redis.runId);
            const isFirst = redis.registry === undefined;
            redis.registry ??= beforeMs;
            gateway.lostMs = isFirst ? othersBeforeMs : redis.registry;
            gateway.checked = redis.runId;
            const unknown = runs.filter(({ runId }) => runId !== redis.runId);
            found += unknown.length;
            for (const { startedMs } of unknown) expect(startedMs).toBeLessThanOrEqual(redis.registry);
            const isSole = isFirst && othersBeforeMs < beforeMs;
            const own = isSole ? unknown.filter(({ lease }) => lease === gateway.lease) : [];
            putBack += own.length;
            for (const run of own) run.runId = redis.runId;
            for (const run of unknown) {
              if (!own.includes(run)) expect(run.startedMs).toBeLessThanOrEqual(gateway.lostMs);
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
