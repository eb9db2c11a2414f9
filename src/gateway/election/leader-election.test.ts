import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ModelLease, type Passage } from '../../../test/harness/model-lease.ts';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { ApiError, type MetricLabels, silentLogger, silentMetrics, UserError } from '../../core/index.ts';
import { LeaderElection } from './leader-election.ts';

const TIMING = { leaseMs: 15_000, renewMs: 10_000, retryMs: 2000 };
const LEASE = { namespace: 'foo', name: 'bar' };

type Through = (passage: Passage) => Promise<unknown>;

let server: ModelLease;
let clock: VirtualClock;
let stops: (() => Promise<void>)[];

beforeEach(() => {
  server = new ModelLease();
  clock = new VirtualClock();
  stops = [];
});

afterEach(async () => {
  const progress = { isStopped: false };
  const stopped = Promise.all(stops.map((stop) => stop())).finally(() => (progress.isStopped = true));
  for (let seconds = 0; seconds < 100 && !progress.isStopped; seconds += 1) await pass(1000);
  await stopped;
});

/** Lets everything happen that needs no time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

async function pass(ms: number): Promise<void> {
  const endMs = clock.now() + ms;
  while (clock.now() < endMs) {
    clock.step(endMs);
    await settle();
  }
}

interface Elector {
  readonly election: LeaderElection;
  /** `lead`, `end` of a leadership as its signal tells it, and `follow`. */
  readonly events: string[];
  readonly warnings: string[];
  readonly metrics: Map<string, number>;
  through: Through;
  /** What its work does besides waiting for the end of the leadership. */
  work: (signal: AbortSignal) => Promise<void>;
  mayStand: boolean;
  stop(): Promise<void>;
}

async function start(random = 0.5, through: Through = (passage) => passage.arrive()): Promise<Elector> {
  const stop = new AbortController();
  const [events, warnings]: string[][] = [[], []];
  const metrics = new Map<string, number>();
  const elector = { through, work: async () => {}, mayStand: true } as Pick<Elector, 'through' | 'work' | 'mayStand'>;
  const warn = (_: object, message: string): void => void warnings?.push(message);
  const election = new LeaderElection({
    runtime: {
      clock,
      logger: { ...silentLogger, warn, error: warn },
      metrics: {
        ...silentMetrics,
        set: (name, labels: MetricLabels, value) => metrics.set(`${name} ${labels['name']}`, value),
        count: (name, labels) => {
          const series = `${name} ${labels['name']}`;
          metrics.set(series, (metrics.get(series) ?? 0) + 1);
        },
      },
    },
    client: server.client((passage) => elector.through(passage)),
    lease: LEASE,
    timing: TIMING,
    random: () => random,
  });
  const running = election.run(
    {
      onLead: async (signal) => {
        events?.push('lead');
        signal.addEventListener('abort', () => events?.push('end'));
        await Promise.all([
          elector.work(signal),
          new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
        ]);
      },
      onFollow: (leader) => void events?.push(leader === election.leader ? 'follow' : 'wrong leader'),
      mayStand: async () => elector.mayStand,
    },
    stop.signal,
  );
  const end = async (): Promise<void> => {
    stop.abort();
    await settle();
    await running;
  };
  stops.push(end);
  await settle();
  return Object.assign(elector, { election, events, warnings, metrics, stop: end }) as Elector;
}

const unreachable: Through = () => new Promise(() => {});
const refused: Through = async () => {
  throw new ApiError({ code: 403, message: 'leases.coordination.k8s.io is forbidden' });
};

describe("client-go's TestLeaderElectionConfigValidation", () => {
  it.each([
    [{ ...TIMING, leaseMs: 10_000 }, 'leaseMs must be greater than renewMs.'],
    [{ ...TIMING, retryMs: 10_000 / 1.2 }, 'renewMs must be greater than 1.2 times retryMs.'],
    [{ ...TIMING, leaseMs: 0 }, 'leaseMs must be greater than zero.'],
    [{ ...TIMING, renewMs: -1 }, 'renewMs must be greater than zero.'],
    [{ ...TIMING, retryMs: 0 }, 'retryMs must be greater than zero.'],
    [{ ...TIMING, leaseMs: 15_500 }, 'leaseMs must be a whole number of seconds.'],
  ])('%j: %s', (timing, sentence) => {
    const runtime = { clock, logger: silentLogger, metrics: silentMetrics };
    const create = () => new LeaderElection({ runtime, client: server.client(), lease: LEASE, timing });
    expect(create).toThrow(new UserError(sentence));
  });
});

describe("client-go's TestFastPathLeaderElection", () => {
  /** Without the watch of the Lease, which client-go does not have. */
  const requests = (): string[] => server.requests.filter((verb) => verb !== 'watch');

  it('Exercise fast path after lock acquired', async () => {
    const elector = await start();
    await pass(4000);
    expect(requests()).toEqual(['get', 'create', 'update', 'update']);
    expect(elector.metrics).toEqual(new Map([['leader_election_master_status foo/bar', 1]]));
  });

  it('Fallback to slow path after fast path fails', async () => {
    const elector = await start();
    let updates = 0;
    elector.through = async (passage) => {
      if (passage.verb === 'update' && (updates += 1) === 2) {
        server.requests.push('update');
        throw new ApiError({ code: 409, message: 'fake conflict' });
      }
      return passage.arrive();
    };
    await pass(6000);
    expect(requests()).toEqual(['get', 'create', 'update', 'update', 'get', 'update', 'update']);
    expect(elector.events).toEqual(['lead']);
    expect(elector.metrics.get('leader_election_slowpath_total foo/bar')).toBe(1);
  });
});

describe("client-go's TestReleaseOnCancellation_Leases", () => {
  it.each(['update', 'get'])('release acquired lock on cancellation of %s', async (verb) => {
    const elector = await start();
    let updates = 0;
    elector.through = (passage) => {
      // The fast path fails, so that there is a read too.
      if (passage.verb === 'update') updates += 1;
      if (verb === 'get' && passage.verb === 'update' && updates === 1) throw new Error('cancelled');
      if (passage.verb === verb) {
        elector.through = (next) => next.arrive();
        return new Promise(() => {});
      }
      return passage.arrive();
    };
    await pass(2000);
    expect(updates).toBe(1);
    await elector.stop();
    expect(elector.events).toEqual(['lead', 'end']);
    expect(server.holder).toBe('');
    expect(elector.metrics.get('leader_election_master_status foo/bar')).toBe(0);
  });
});

describe('a leader', () => {
  it('that cannot renew stops leading when its time to renew is over, before the Lease can be taken', async () => {
    const leader = await start();
    const follower = await start();
    await pass(4000);
    // The last renewal was sent at 4 s.
    leader.through = unreachable;
    await pass(9999);
    expect(leader.election.isLeading()).toBe(true);
    expect(leader.events).toEqual(['lead']);
    await pass(1);
    expect(leader.election.isLeading()).toBe(false);
    expect(leader.events).toEqual(['lead', 'end']);
    expect(leader.metrics.get('leader_election_master_status foo/bar')).toBe(0);
    await pass(4999);
    expect(follower.events).toEqual(['follow']);
    await pass(2);
    expect(follower.events).toEqual(['follow', 'lead']);
    expect(server.stored?.spec.leaseTransitions).toBe(1);
    // Within the limit of the request that hangs, and a jittered retry period.
    leader.through = (passage) => passage.arrive();
    await pass(5000 + 3200);
    expect(leader.events).toEqual(['lead', 'end', 'follow']);
    expect(leader.warnings).toHaveLength(1);
  });

  it('that wakes from a freeze does not lead, before any timer has run', async () => {
    const { election, events } = await start();
    expect(election.isLeading()).toBe(true);
    clock.jump(9999);
    expect(election.isLeading()).toBe(true);
    clock.jump(1);
    expect(election.isLeading()).toBe(false);
    await pass(0);
    clock.step(clock.now());
    await settle();
    // No other process has taken the Lease: it leads anew, with a new signal.
    expect(events).toEqual(['lead', 'end', 'lead']);
    expect(server.stored?.spec.leaseTransitions).toBe(0);
  });

  it('does not lead on with an answer that comes after its time', async () => {
    const leader = await start();
    const gate = Promise.withResolvers<void>();
    leader.through = async (passage) => {
      const answer = await passage.arrive();
      await gate.promise;
      return answer;
    };
    await pass(2000);
    clock.jump(8500);
    // As after a freeze: the answer is read before the timers run.
    gate.resolve();
    await settle();
    expect(leader.events.slice(0, 2)).toEqual(['lead', 'end']);
  });

  it.each([
    ['that sees another holder', () => server.write({ holderIdentity: 'other', leaseDurationSeconds: 15 }), 'follow'],
    ['whose Lease was released', () => server.write({ holderIdentity: '', leaseDurationSeconds: 1 }), 'lead'],
    ['whose Lease was deleted', () => server.delete(), 'lead'],
  ])('%s ends this leadership at its next renewal', async (_, change, next) => {
    const { election, events } = await start();
    change();
    await pass(2000);
    expect(events).toEqual(['lead', 'end', next]);
    expect(election.isLeading()).toBe(next === 'lead');
  });

  it('without the right to renew leads until its time is over, and again when it has the right', async () => {
    const leader = await start();
    leader.through = refused;
    await pass(9999);
    expect(leader.events).toEqual(['lead']);
    await pass(1);
    expect(leader.events).toEqual(['lead', 'end']);
    await pass(60_000);
    expect(leader.warnings.filter((each) => each.includes('cannot be watched'))).toHaveLength(1);
    expect(leader.warnings.filter((each) => each.includes('trying again'))).toHaveLength(1);
    leader.through = (passage) => passage.arrive();
    await pass(3200);
    expect(leader.events).toEqual(['lead', 'end', 'lead']);
  });

  it('without any right is not ready, and says why, until it has seen a leader', async () => {
    const elector = await start(0.5, refused);
    await pass(20_000);
    expect(elector.events).toEqual([]);
    expect(elector.election.notReady()).toContain('leases.coordination.k8s.io is forbidden');
    elector.through = (passage) => passage.arrive();
    await pass(5000);
    expect(elector.events).toEqual(['lead']);
    expect(elector.election.notReady()).toBeUndefined();
    // A gateway without a leader still serves the cache.
    elector.through = refused;
    await pass(60_000);
    expect(elector.election.notReady()).toBeUndefined();
  });

  it.each(['unreachable', 'refused'] as const)(
    'and a follower warn while the apiserver is %s and no gateway leads, and not while one does',
    async (outage) => {
      const electors = [await start(), await start()];
      const warnings = () => electors.map(({ election }) => election.warning);
      await pass(60_000);
      expect(warnings()).toEqual([undefined, undefined]);
      for (const each of electors) each.through = outage === 'refused' ? refused : unreachable;
      await pass(10_000);
      // The Lease has not expired yet.
      expect(warnings()).toEqual([undefined, undefined]);
      await pass(50_000);
      for (const each of warnings()) expect(each).toMatch(/^no gateway has renewed the Lease foo\/bar for 6[0-2] s \(/);
      for (const each of electors) each.through = (passage) => passage.arrive();
      await pass(10_000);
      expect(warnings()).toEqual([undefined, undefined]);
    },
  );

  it('a follower that may not stand does not look at the Lease, and does not warn of it', async () => {
    await start();
    const follower = await start();
    await pass(10_000);
    follower.mayStand = false;
    await pass(60_000);
    expect(follower.election.warning).toBeUndefined();
  });

  it('releases the Lease after its work', async () => {
    const leader = await start();
    const work = Promise.withResolvers<void>();
    leader.work = () => work.promise;
    // The work of the first leadership has begun without it.
    server.delete();
    await pass(2000);
    const stopping = leader.stop();
    await settle();
    expect(leader.election.isLeading()).toBe(false);
    expect(server.holder).toBe(leader.election.identity);
    work.resolve();
    await stopping;
    expect(server.holder).toBe('');
  });

  it('does not release the Lease while its work goes on, and ends when its leadership would have ended', async () => {
    const leader = await start();
    leader.work = () => new Promise(() => {});
    server.delete();
    await pass(2000);
    const stopping = leader.stop();
    await pass(10_000);
    await stopping;
    expect(server.holder).toBe(leader.election.identity);
  });

  it('does not stand again before the work of its last leadership has ended', async () => {
    const leader = await start();
    const work = Promise.withResolvers<void>();
    leader.work = () => work.promise;
    server.delete();
    await pass(2000);
    expect(leader.events).toEqual(['lead', 'end', 'lead']);
    server.delete();
    await pass(20_000);
    expect(leader.events).toEqual(['lead', 'end', 'lead', 'end']);
    work.resolve();
    await pass(20_000);
    expect(leader.events).toEqual(['lead', 'end', 'lead', 'end', 'lead']);
  });

  it('whose work fails gives up, so that another can lead', async () => {
    const leader = await start();
    const follower = await start();
    await pass(0);
    leader.work = async () => {
      throw new Error('no Redis');
    };
    server.write({ ...server.stored?.spec, holderIdentity: '' });
    leader.through = async (passage) => passage.arrive();
    follower.through = unreachable;
    await pass(2000);
    expect(leader.warnings).toEqual(['the work of the leader failed']);
    expect(leader.events.filter((event) => event !== 'follow')).toEqual(['lead', 'end', 'lead', 'end']);
    expect(server.holder).toBe('');
    expect(leader.election.isLeading()).toBe(false);
  });

  it('that has given up, could not release the Lease and may not stand leaves it to others', async () => {
    const broken = await start(0.5, unreachable);
    const work = Promise.withResolvers<void>();
    broken.work = () => work.promise;
    broken.through = (passage) => passage.arrive();
    await pass(20_000);
    const other = await start();
    expect(broken.election.isLeading()).toBe(true);
    broken.mayStand = false;
    broken.through = unreachable;
    work.reject(new Error('no Redis'));
    await pass(4000);
    broken.through = (passage) => passage.arrive();
    await pass(15_000);
    expect([broken.election.isLeading(), other.election.isLeading()]).toEqual([false, true]);
  });

  it('that cannot reach the apiserver at a stop gives up after a few seconds', async () => {
    const leader = await start();
    leader.through = unreachable;
    const stopping = leader.stop();
    await settle();
    await pass(3000);
    await stopping;
    expect(leader.warnings).toEqual(['the Lease could not be released: it will expire']);
  });
});

describe('a follower', () => {
  it('takes a released Lease at once', async () => {
    const leader = await start();
    const follower = await start();
    await pass(1000);
    expect(follower.events).toEqual(['follow']);
    await leader.stop();
    expect(follower.events).toEqual(['follow', 'lead']);
  });

  it('takes a released Lease at its next attempt where it may not watch', async () => {
    const leader = await start();
    const follower = await start();
    follower.through = (passage) => (passage.verb === 'watch' ? refused(passage) : passage.arrive());
    // Its first watch ends, and is not followed by another one.
    await pass(60_001);
    expect(follower.warnings).toHaveLength(1);
    await leader.stop();
    expect(follower.events).toEqual(['follow']);
    await pass(2000 * (1 + 0.5 * 1.2));
    expect(follower.events).toEqual(['follow', 'lead']);
  });

  it('takes the Lease of a dead leader when it has not changed for its duration', async () => {
    const leader = await start();
    const follower = await start(1);
    await pass(20_000);
    leader.through = unreachable;
    await pass(15_000);
    expect(follower.events).toEqual(['follow']);
    await pass(1);
    expect(follower.events).toEqual(['follow', 'lead']);
  });

  it('waits between one and 2.2 retry periods without a hint', async () => {
    server.write({ holderIdentity: 'other', leaseDurationSeconds: 3600 });
    for (const [random, everyMs] of [
      [0, 2000],
      [1, 4400],
    ] as const) {
      server.requests.length = 0;
      const follower = await start(random);
      const gets = (): number => server.requests.filter((verb) => verb === 'get').length;
      // The first event of the watch is a hint.
      expect(gets()).toBe(2);
      await pass(everyMs - 1);
      expect(gets()).toBe(2);
      await pass(1);
      expect(gets()).toBe(3);
      await follower.stop();
    }
  });

  it('does not wait for an apiserver that does not answer', async () => {
    const follower = await start();
    server.write({ holderIdentity: 'other', leaseDurationSeconds: 1 });
    follower.through = unreachable;
    await pass(30_000);
    expect(follower.events).toEqual(['lead', 'end']);
    expect(follower.election.isLeading()).toBe(false);
    follower.through = (passage) => passage.arrive();
    await pass(20_000);
    expect(follower.election.isLeading()).toBe(true);
  });

  it('that may not stand leaves a free Lease alone until it may', async () => {
    const elector = await start(0.5, unreachable);
    elector.mayStand = false;
    elector.through = (passage) => passage.arrive();
    await pass(60_000);
    expect([server.stored, elector.events]).toEqual([undefined, []]);
    elector.mayStand = true;
    await pass(5000);
    expect(elector.events).toEqual(['lead']);
  });

  it('that is stopped in the middle of an attempt leaves no Lease behind', async () => {
    server.write({ holderIdentity: 'other', leaseDurationSeconds: 3600 });
    const follower = await start();
    follower.through = async (passage) => {
      const answer = await passage.arrive();
      return passage.verb === 'update' ? new Promise(() => {}) : answer;
    };
    server.write({ holderIdentity: '' });
    await settle();
    expect(server.holder).toBe(follower.election.identity);
    follower.through = (passage) => passage.arrive();
    await follower.stop();
    expect(follower.events).toEqual(['follow']);
    expect(server.holder).toBe('');
  });

  it('watches with one request a minute, and the leader does not watch', async () => {
    const leader = await start();
    await start();
    await pass(300_000);
    expect(server.requests.filter((verb) => verb === 'watch').length).toBeLessThanOrEqual(2 + 5);
    await leader.stop();
    await settle();
    expect(server.watched).toBe(false);
  });
});

it('identities are random', async () => {
  const electors = [await start(), await start()];
  expect(new Set(electors.map(({ election }) => election.identity)).size).toBe(2);
});
