import { beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { ModelLease, type Passage } from '../../../test/harness/model-lease.ts';
import { ApiError } from '../../core/index.ts';
import { LeaseLock } from './lease-lock.ts';
import type { LeaseSpec } from './lease.ts';

const never = new AbortController().signal;
const lost = new Promise<never>(() => {});

let server: ModelLease;
let clock: VirtualClock;
let slowPaths: number;

beforeEach(() => {
  server = new ModelLease();
  clock = new VirtualClock();
  slowPaths = 0;
});

function lockOf(identity: string, through?: (passage: Passage) => Promise<unknown>, ownClock = clock): LeaseLock {
  return new LeaseLock({
    client: server.client(through),
    clock: ownClock,
    lease: { namespace: 'foo', name: 'bar' },
    timing: { leaseMs: 10_000, renewMs: 6000, retryMs: 1000 },
    identity,
    onSlowPath: () => (slowPaths += 1),
  });
}

async function pass(ms: number): Promise<void> {
  clock.step(clock.now() + ms);
  await new Promise((resolve) => setImmediate(resolve));
}

/** Names and contents are those of client-go's table. A record without times has never been renewed. */
describe("client-go's TestTryAcquireOrRenewLeases", () => {
  interface Case {
    readonly name: string;
    readonly found?: LeaseSpec;
    /** How long before the attempt the record is seen. */
    readonly seenMs?: number;
    readonly attempt: 'acquired' | 'renewed' | 'refused';
    readonly holder: string;
    readonly transitions?: number;
    readonly requests: readonly string[];
  }

  const bing = { holderIdentity: 'bing', leaseDurationSeconds: 3 };
  it.each<Case>([
    {
      name: 'acquire from no object',
      attempt: 'acquired',
      holder: 'baz',
      transitions: 0,
      requests: ['get', 'create'],
    },
    {
      name: 'acquire from object without annotations',
      found: {},
      attempt: 'acquired',
      holder: 'baz',
      transitions: 1,
      requests: ['get', 'update'],
    },
    {
      name: 'acquire from led object with the lease duration seconds',
      found: bing,
      seenMs: 3000,
      attempt: 'acquired',
      holder: 'baz',
      transitions: 1,
      requests: ['get', 'get', 'update'],
    },
    {
      name: 'acquire from unled object',
      found: { holderIdentity: '', leaseDurationSeconds: 0, leaseTransitions: 0 },
      attempt: 'acquired',
      holder: 'baz',
      transitions: 1,
      requests: ['get', 'update'],
    },
    {
      name: 'acquire from led, unacked object',
      found: { holderIdentity: 'bing' },
      attempt: 'acquired',
      holder: 'baz',
      transitions: 1,
      requests: ['get', 'update'],
    },
    {
      name: 'acquire from empty led, acked object',
      found: { holderIdentity: '', leaseDurationSeconds: 3600 },
      attempt: 'acquired',
      holder: 'baz',
      transitions: 1,
      requests: ['get', 'update'],
    },
    {
      name: "don't acquire from led, acked object",
      found: bing,
      attempt: 'refused',
      holder: 'bing',
      requests: ['get'],
    },
    {
      name: "don't acquire from led, acked object (just before its end)",
      found: bing,
      seenMs: 2999,
      attempt: 'refused',
      holder: 'bing',
      requests: ['get', 'get'],
    },
    {
      name: 'renew already acquired object',
      found: { holderIdentity: 'baz', leaseTransitions: 4, acquireTime: '2025-01-01T00:00:00.000000Z' },
      attempt: 'renewed',
      holder: 'baz',
      transitions: 4,
      requests: ['get', 'update'],
    },
  ])('$name', async ({ found, seenMs, attempt, holder, transitions, requests }) => {
    if (found) server.write(found);
    const lock = lockOf('baz');
    if (seenMs !== undefined) {
      expect(await lock.tryAcquireOrRenew(never)).toBe('refused');
      await pass(seenMs);
    }
    expect(await lock.tryAcquireOrRenew(never)).toBe(attempt);
    expect(lock.holder).toBe(holder);
    expect(server.holder).toBe(holder);
    expect(server.stored?.spec.leaseTransitions).toBe(transitions);
    expect(server.requests).toEqual(requests);
    expect(slowPaths).toBe(attempt === 'renewed' ? 1 : 0);
  });
});

describe('the record', () => {
  it('is that of client-go: at the start, after renewals, of the next holder, and released', async () => {
    const first = lockOf('first');
    await first.tryAcquireOrRenew(never);
    const acquired = '2026-01-01T00:00:00.000000Z';
    const own = { holderIdentity: 'first', leaseDurationSeconds: 10, leaseTransitions: 0, acquireTime: acquired };
    expect(server.stored?.spec).toEqual({ ...own, renewTime: acquired });
    await pass(1500);
    await first.tryAcquireOrRenew(never);
    expect(server.stored?.spec).toEqual({ ...own, renewTime: '2026-01-01T00:00:01.500000Z' });
    expect(server.requests).toEqual(['get', 'create', 'update']);

    const second = lockOf('second');
    expect(await second.tryAcquireOrRenew(never)).toBe('refused');
    await pass(10_000);
    expect(await second.tryAcquireOrRenew(never)).toBe('acquired');
    const taken = '2026-01-01T00:00:11.500000Z';
    const record = { leaseTransitions: 1, acquireTime: taken, renewTime: taken };
    expect(server.stored?.spec).toEqual({ ...record, holderIdentity: 'second', leaseDurationSeconds: 10 });
    // TestReleaseLeaseLeases: release acquired lock from no object.
    await second.release(never);
    expect(server.stored?.spec).toEqual({ ...record, holderIdentity: '', leaseDurationSeconds: 1 });
    expect(second.holder).toBe('');
  });

  it('keeps the rest of the object, and has no strategy and no preferred holder', async () => {
    server.write({ strategy: 'OldestEmulationVersion', preferredHolder: 'x' } as LeaseSpec, { labels: { a: 'b' } });
    await lockOf('baz').tryAcquireOrRenew(never);
    expect(server.stored?.metadata['labels']).toEqual({ a: 'b' });
    expect(Object.keys(server.stored?.spec ?? {}).toSorted()).toEqual(
      ['acquireTime', 'holderIdentity', 'leaseDurationSeconds', 'leaseTransitions', 'renewTime'].toSorted(),
    );
  });

  it('may have any times: wall clocks are not compared', async () => {
    for (const renewTime of ['1999-01-01T00:00:00.000000Z', '2099-01-01T00:00:00.000000Z']) {
      server = new ModelLease();
      server.write({ holderIdentity: 'bing', leaseDurationSeconds: 5, renewTime });
      const lock = lockOf('baz');
      expect(await lock.tryAcquireOrRenew(never)).toBe('refused');
      await pass(4999);
      expect(await lock.tryAcquireOrRenew(never)).toBe('refused');
      await pass(1);
      expect(await lock.tryAcquireOrRenew(never)).toBe('acquired');
    }
  });

  it('counts from its last change', async () => {
    const [holder, follower] = [lockOf('holder'), lockOf('follower')];
    await holder.tryAcquireOrRenew(never);
    for (let renewals = 0; renewals < 5; renewals += 1) {
      expect(await follower.tryAcquireOrRenew(never)).toBe('refused');
      await pass(9000);
      expect(await holder.tryAcquireOrRenew(never)).toBe('renewed');
    }
    expect(await follower.tryAcquireOrRenew(never)).toBe('refused');
    await pass(10_000);
    expect(await follower.tryAcquireOrRenew(never)).toBe('acquired');
  });
});

describe('a conflict', () => {
  it('sends the holder to the slow path, where it renews', async () => {
    const lock = lockOf('baz');
    await lock.tryAcquireOrRenew(never);
    server.write(server.stored?.spec ?? {}, { annotations: { by: 'a person' } });
    expect(await lock.tryAcquireOrRenew(never)).toBe('renewed');
    expect(server.requests).toEqual(['get', 'create', 'update', 'get', 'update']);
    expect(slowPaths).toBe(1);
    expect(server.stored?.metadata['annotations']).toEqual({ by: 'a person' });
  });

  it('shows the former holder the new one', async () => {
    const lock = lockOf('baz');
    await lock.tryAcquireOrRenew(never);
    server.write({ holderIdentity: 'bing', leaseDurationSeconds: 10 });
    expect(await lock.tryAcquireOrRenew(never)).toBe('refused');
    expect(lock.holder).toBe('bing');
  });

  it.each(['create', 'update'] as const)('lets one of two win that %s at once', async (verb) => {
    if (verb === 'update') server.write({ holderIdentity: '' });
    const gate = Promise.withResolvers<void>();
    let waiting = 0;
    const through = async (passage: Passage): Promise<unknown> => {
      if (passage.verb === 'get') return passage.arrive();
      if ((waiting += 1) === 2) gate.resolve();
      await gate.promise;
      return passage.arrive();
    };
    const attempts = ['one', 'two'].map((identity) => lockOf(identity, through).tryAcquireOrRenew(never));
    const ends = await Promise.allSettled(attempts);
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(server.holder).toBe(ends[0]?.status === 'fulfilled' ? 'one' : 'two');
  });
});

describe('an answer that is lost', () => {
  it('ends the attempt after half the time to renew; the next one finds out', async () => {
    let losing = 'create';
    const lock = lockOf('baz', async (passage) => {
      const answer = await passage.arrive();
      return passage.verb === losing ? lost : answer;
    });
    const first = lock.tryAcquireOrRenew(never);
    const failed = expect(first).rejects.toThrow('the apiserver did not answer within 3 s');
    await pass(0);
    await pass(3000);
    await failed;
    losing = '';
    expect(await lock.tryAcquireOrRenew(never)).toBe('renewed');
    expect(server.stored?.spec.leaseTransitions).toBe(0);
    expect(lock.observedAtMs).toBe(clock.now());
  });

  it('does not keep an attempt that is aborted', async () => {
    const stop = new AbortController();
    const attempt = lockOf('baz', () => lost).tryAcquireOrRenew(stop.signal);
    const failed = expect(attempt).rejects.toThrow('enough');
    stop.abort(new Error('enough'));
    await failed;
  });

  it('counts a write from the moment before it is sent', async () => {
    const gate = Promise.withResolvers<void>();
    const lock = lockOf('baz', async (passage) => {
      const answer = await passage.arrive();
      if (passage.verb === 'create') await gate.promise;
      return answer;
    });
    const sentMs = clock.now();
    const attempt = lock.tryAcquireOrRenew(never);
    await pass(0);
    await pass(2000);
    gate.resolve();
    expect(await attempt).toBe('acquired');
    expect(lock.observedAtMs).toBe(sentMs);
  });
});

describe('a Lease that was deleted', () => {
  it('is created again at once by its holder', async () => {
    const lock = lockOf('baz');
    await lock.tryAcquireOrRenew(never);
    server.delete();
    await pass(5000);
    expect(await lock.tryAcquireOrRenew(never)).toBe('acquired');
    expect(server.requests).toEqual(['get', 'create', 'update', 'get', 'create']);
  });

  it('is created by a process that has seen it only after its holder must have noticed', async () => {
    const [holder, follower] = [lockOf('holder'), lockOf('follower')];
    await holder.tryAcquireOrRenew(never);
    await follower.tryAcquireOrRenew(never);
    await pass(9999);
    server.delete();
    expect(await follower.tryAcquireOrRenew(never)).toBe('refused');
    expect(follower.holder).toBe('');
    await pass(9999);
    expect(await follower.tryAcquireOrRenew(never)).toBe('refused');
    await pass(1);
    expect(await follower.tryAcquireOrRenew(never)).toBe('acquired');
  });

  it('is not created at once by a holder that was away for so long that it may have lost it', async () => {
    const holder = lockOf('holder');
    await holder.tryAcquireOrRenew(never);
    await pass(10_000);
    server.delete();
    expect(await holder.tryAcquireOrRenew(never)).toBe('refused');
  });
});

describe('release', () => {
  it("reads the Lease first (client-go's TestReleaseMethodCallsGet)", async () => {
    const lock = lockOf('baz');
    await lock.tryAcquireOrRenew(never);
    await lock.release(never);
    expect(server.requests).toEqual(['get', 'create', 'get', 'update']);
  });

  it("leaves another process's Lease and a deleted one alone", async () => {
    const lock = lockOf('baz');
    await lock.tryAcquireOrRenew(never);
    server.write({ holderIdentity: 'bing', leaseDurationSeconds: 10 });
    await lock.release(never);
    expect(server.holder).toBe('bing');
    server.delete();
    await lock.release(never);
    expect(server.stored).toBeUndefined();
  });

  it('is repeated when a renewal that was given up arrives in between', async () => {
    let late: (() => Promise<unknown>) | undefined;
    let withheld = false;
    const lock = lockOf('baz', async (passage) => {
      if (passage.verb === 'update' && withheld) {
        withheld = false;
        late = () => passage.arrive();
        return lost;
      }
      const answer = await passage.arrive();
      if (passage.verb === 'get') await late?.();
      late = undefined;
      return answer;
    });
    await lock.tryAcquireOrRenew(never);
    withheld = true;
    const renewal = new AbortController();
    const renewing = lock.tryAcquireOrRenew(renewal.signal).catch(() => 'aborted');
    await pass(0);
    renewal.abort();
    expect(await renewing).toBe('aborted');
    await lock.release(never);
    expect(server.holder).toBe('');
    expect(server.requests).toEqual(['get', 'create', 'get', 'update', 'update', 'get', 'update']);
  });

  it.each([
    ['read', 'get'],
    ['written', 'update'],
  ])('fails when the Lease cannot be %s', async (_, verb) => {
    let refused = false;
    const lock = lockOf('baz', (passage) => {
      if (refused && passage.verb === verb) throw new ApiError({ code: 403, message: 'forbidden' });
      return passage.arrive();
    });
    await lock.tryAcquireOrRenew(never);
    refused = true;
    await expect(lock.release(never)).rejects.toThrow('forbidden');
    expect(server.holder).toBe('baz');
  });
});
