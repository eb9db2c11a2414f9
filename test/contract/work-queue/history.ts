import { describe, expect, it } from 'vitest';
import type { PastRun, RunQuery, WorkQueue } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { SAMPLE_MS, SAMPLES } from '../../../src/gateway/controller/workqueue/history/samples.ts';
import { done } from '../../harness/recording-process.ts';
import { because, type CreateFixture, eachSetting, numbered, plain } from './setting.ts';

/** All pages of a query. */
async function allRuns(queue: WorkQueue, query: RunQuery): Promise<PastRun[]> {
  const found: PastRun[] = [];
  for (let before: string | undefined = query.before; ;) {
    const page = await queue.history.runs({ ...query, ...(before === undefined ? {} : { before }) });
    expect(page.runs.length).toBeLessThanOrEqual(query.limit);
    found.push(...page.runs);
    if (page.next === undefined) return found;
    before = page.next;
  }
}

/** What has run, how it ended, and how much ran when. */
export function historyContract(create: CreateFixture): void {
  const setting = eachSetting(create);

  describe('the history of runs', () => {
    it('of an unknown key and of a queue that has never run is empty', async () => {
      const { queue } = setting();
      expect(await queue.history.runsOf('a/b')).toEqual([]);
      expect(await queue.history.runs({ limit: 10 })).toEqual({ runs: [] });
    });

    it('tells of a key in good health why it ran, for how long, what it wrote and when it runs next', async () => {
      const { queue, process, clock } = setting();
      const from = clock.now();
      const wrote = { count: 1, first: [{ object: 'v1/ConfigMap a/b', resourceVersion: '7' }] };
      await queue.add([{ key: 'a/b', reasons: [because('1'), { type: 'manual', message: '"}\n{<script>' }] }]);
      clock.step(from + 30);
      const blocked = setting().blockRuns('a/b');
      await queue.start(process);
      await setting().ran('a/b');
      await setting().pass(200);
      const startedMs = process.startedAtMs[0] ?? 0;
      const endMs = clock.now();
      blocked.release({ ...done, againAfterMs: 60_000, barrier: '{}', wrote });
      await setting().settle();
      const [run] = await queue.history.runsOf('a/b');
      expect(run).toEqual({
        outcome: 'requeue',
        key: 'a/b',
        run: process.runs[0]?.run,
        atMs: endMs,
        gateway: expect.any(String) as string,
        attempt: 1,
        tookMs: endMs - startedMs,
        waitedMs: startedMs - from,
        reasons: [because('1'), { type: 'manual', message: '"}\n{<script>' }],
        nextMs: endMs + 60_000,
        barrier: true,
        wrote,
      });
      expect((await queue.history.runs({ limit: 10 })).runs).toEqual([run]);
    });

    it('tells the last error of many keys at once, and none after a success', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) => (key === 'good' ? done : { ...done, failures: 'count', error: `${key} broke` });
      await queue.start(process);
      await queue.add(['good', 'bad', 'worse'].flatMap((key) => plain(key)));
      for (const key of ['good', 'bad', 'worse']) await setting().ran(key);
      await setting().settle();
      expect(await queue.history.lastErrors(['worse', 'good', 'never', 'bad'])).toEqual([
        'worse broke',
        undefined,
        undefined,
        'bad broke',
      ]);
      expect(await queue.history.lastErrors([])).toEqual([]);
      process.onRun = () => done;
      await queue.add(plain('bad'));
      await setting().ran('bad', 2);
      await setting().settle();
      expect(await queue.history.lastErrors(['bad', 'worse'])).toEqual([undefined, 'worse broke']);
    });

    it('has both parts of a run that goes on after its answer, and its end by another gateway', async () => {
      const { queue, process, clock } = setting();
      const untilMs = clock.now() + 60_000;
      process.onRun = () => ({ kind: 'accepted', untilMs });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().ran('k');
      await setting().settle();
      const other = await setting().open();
      const { run = 0 } = process.runs[0] ?? {};
      expect(
        await other.settle('k', run, { kind: 'ended', failures: 'count', againAfterMs: 9_000_000, error: 'no' }),
      ).toBe(true);
      process.onRun = () => done;
      expect((await queue.history.runsOf('k')).toReversed().slice(0, 2)).toMatchObject([
        { run, outcome: 'accepted', nextMs: untilMs },
        { run, outcome: 'failed', error: 'no' },
      ]);
      await queue.add(plain('k'));
      await setting().settle();
      expect((await queue.history.runsOf('k')).map(({ outcome }) => outcome)).toEqual(['done', 'failed', 'accepted']);
    });

    it('finds one run by its number, with its log and its stack', async () => {
      const { queue, process } = setting();
      const notes = { log: ['one', 'two'], stack: 'Error: no\n    at a.ts:1' };
      process.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true, error: 'no', ...notes });
      await queue.start(process);
      await queue.add(plain(...numbered('k', 12)));
      await setting().settle();
      for (const { key, run } of process.runs) {
        const { runs } = await queue.history.runs({ limit: 5, key, run });
        expect(runs).toMatchObject([{ key, run, ...notes }]);
        expect((await queue.history.runs({ limit: 5, key, run: run + 100 })).runs).toEqual([]);
        expect(await queue.history.runsOf(key)).toMatchObject([{ key, run, ...notes }]);
      }
    });

    it('has the log of each failure, and of some of the many runs that end well', async () => {
      const { queue, process } = setting();
      process.onRun = ({ key }) => ({
        ...done,
        log: [key],
        ...(key.startsWith('bad') && { failures: 'count', dead: true }),
      });
      await queue.start(process);
      await queue.add(plain(...numbered('good', 300), ...numbered('bad', 150)));
      await setting().atRest();
      const runs = await allRuns(queue, { limit: 1000 });
      const logged = (start: string) => runs.filter(({ key, log }) => key.startsWith(start) && log?.[0] === key).length;
      expect(logged('bad')).toBe(150);
      expect(logged('good')).toBeGreaterThanOrEqual(100);
      expect(logged('good')).toBeLessThan(300);
    });

    it('leaves out an outcome that came too late', async () => {
      const { queue, process } = setting();
      await queue.start(process);
      await queue.add(plain('k', 'l'));
      await setting().atRest();
      expect(await queue.settle('k', process.runsOf('k')[0]?.run ?? 0, done)).toBe(false);
      expect(await queue.history.runsOf('k')).toHaveLength(1);
    });

    it('never has more than its bound, has the newest, in order, page by page, and goes on after a failover', async () => {
      const historyRuns = 300;
      const { process } = setting();
      const first = await setting().open({ concurrency: 50 }, { historyRuns });
      await first.start(process);
      let ended: readonly number[] = [];
      for (let round = 0; round < 12; round += 1) {
        // Few enough at a time for all to be recorded.
        await setting().pass(10_000);
        await first.add(plain(...numbered(`${round}/`, 1 + round * 7)));
        await setting().atRest();
        const runs = await allRuns(first, { limit: 7 });
        ended = runs.map(({ run }) => run);
        expect(ended.length).toBeLessThanOrEqual(historyRuns);
        expect(ended.length).toBeGreaterThanOrEqual(Math.min(process.runs.length, historyRuns - 64));
        // One gateway that runs keys which end at once records them in the order of their numbers.
        const newest = process.runs.map(({ run }) => run).toSorted((one, other) => other - one);
        expect(ended).toEqual(newest.slice(0, ended.length));
        for (const limit of [1, 64, 1000]) {
          if (limit > 1 || round < 4) expect(await allRuns(first, { limit })).toEqual(runs);
        }
      }
      await first.stop(1000);
      const second = await setting().open({ concurrency: 50 }, { historyRuns });
      const after = setting().newProcess();
      await second.start(after);
      await second.add(plain('after'));
      await setting().atRest();
      const [newest, ...others] = await allRuns(second, { limit: 100 });
      expect(newest).toMatchObject({ key: 'after', run: after.runs[0]?.run });
      expect(others.map(({ run }) => run)).toEqual(ended.slice(0, others.length));
    });

    it('records half of a history of a burst and a tenth a second, all that did not go well, and how many it left out', async () => {
      const historyRuns = 1000;
      const { process } = setting();
      const queue = await setting().open({ concurrency: 50 }, { historyRuns });
      process.onRun = ({ key, failures }) =>
        key.startsWith('bad') && failures === 0 ? { ...done, failures: 'count', againAfterMs: 1, error: 'no' } : done;
      await queue.start(process);
      const of = (runs: readonly PastRun[], start: string) => runs.filter(({ key }) => key.startsWith(start));
      const left = (runs: readonly PastRun[]) => runs.reduce((sum, { leftOut = 0 }) => sum + leftOut, 0);
      await queue.add(plain(...numbered('good', 700), ...numbered('bad', 20)));
      await setting().settle();
      await setting().pass(10_000);
      await queue.add(plain('last'));
      await setting().settle();
      const runs = await allRuns(queue, { limit: 1000 });
      const good = of(runs, 'good').length;
      expect(good).toBeGreaterThanOrEqual(historyRuns / 2);
      expect(good).toBeLessThan(700);
      // Each failure, and the success after it.
      expect(of(runs, 'bad')).toHaveLength(40);
      expect(of(runs, 'last')).toHaveLength(1);
      expect(good + left(runs)).toBe(700);
    });

    it('counts the wait of a key from the event that woke it', async () => {
      const { queue, process, clock } = setting();
      const from = clock.now();
      await queue.add([{ key: 'k', reasons: [], atMs: from - 400 }]);
      await queue.add([{ key: 'k', reasons: [], atMs: from - 100 }]);
      await queue.add([{ key: 'ahead', reasons: [], atMs: from + 3_600_000 }]);
      await queue.start(process);
      await setting().settle();
      for (const [key, sinceMs] of [
        ['k', from - 400],
        ['ahead', from],
      ] as const) {
        const [run] = await queue.history.runsOf(key);
        expect(run?.waitedMs).toBeGreaterThanOrEqual((process.startedAtMs[0] ?? 0) - sinceMs);
        expect(run?.waitedMs).toBeLessThan((process.startedAtMs[0] ?? 0) - sinceMs + 200);
      }
    });

    it('counts a long entry as several runs, so that hostile texts cannot take more memory', async () => {
      const historyRuns = 1000;
      const { process } = setting();
      const queue = await setting().open({ concurrency: 50 }, { historyRuns });
      process.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true, error: '\u0000"\n'.repeat(1000) });
      await queue.start(process);
      for (let round = 0; round < 10; round += 1) await queue.add(plain(...numbered(`${round}/`, 20)));
      await setting().atRest();
      const runs = await allRuns(queue, { limit: 100 });
      const bytes = runs.reduce((sum, run) => sum + Buffer.byteLength(JSON.stringify(run)), 0);
      expect(runs.length).toBeGreaterThan(0);
      expect(bytes).toBeLessThanOrEqual(historyRuns * 256);
    });

    it('is filtered by outcome and followed from a cursor', async () => {
      const { process } = setting();
      const queue = await setting().open({ concurrency: 20 });
      process.onRun = ({ key }) =>
        key.startsWith('bad')
          ? { kind: 'ended', failures: 'keep', dead: true, error: '"outcome":"done"' }
          : { ...done, ...(key.startsWith('later') ? { againAfterMs: 3_600_000 } : {}) };
      await queue.start(process);
      const [bad, good, later] = [numbered('bad', 30), numbered('good', 200), numbered('later', 10)];
      await queue.add(plain(...bad, ...good, ...later));
      await setting().settle();
      const keysOf = (runs: readonly PastRun[]): string[] => runs.map(({ key }) => key).toSorted();
      expect(keysOf(await allRuns(queue, { limit: 8, outcome: 'dead' }))).toEqual(bad.toSorted());
      expect(keysOf(await allRuns(queue, { limit: 8, outcome: 'requeue' }))).toEqual(later.toSorted());
      expect(await allRuns(queue, { limit: 500, outcome: 'done' })).toHaveLength(200);
      expect(await allRuns(queue, { limit: 8, outcome: 'lost' })).toEqual([]);
      const { newest = '' } = await queue.history.runs({ limit: 1 });
      expect(await queue.history.runs({ limit: 10, after: newest })).toEqual({ runs: [], newest });
      await queue.add(plain('good0', 'bad0'));
      await setting().settle();
      const followed = await queue.history.runs({ limit: 10, after: newest });
      expect(keysOf(followed.runs)).toEqual(['bad0', 'good0']);
      expect(await queue.history.runs({ limit: 10, after: followed.newest ?? '' })).toMatchObject({ runs: [] });
    });

    it('has the last runs of a key among many, 10 at most, and those of no key whose name begins alike', async () => {
      const { process } = setting();
      const queue = await setting().open({ concurrency: 50 });
      await queue.start(process);
      for (let round = 0; round < 12; round += 1) {
        await queue.add(plain('a/k', 'a/kk', 'b/a/k', ...numbered(`${round}/`, 60)));
        await setting().atRest();
      }
      const runs = process.runsOf('a/k').map(({ run }) => run);
      expect((await allRuns(queue, { limit: 5, key: 'a/k' })).map(({ run }) => run)).toEqual(runs.toReversed());
      expect((await queue.history.runsOf('a/k')).map(({ run }) => run)).toEqual(runs.toReversed().slice(0, 10));
    });

    it('that is off has nothing of a key in good health, and no samples', async () => {
      const { process } = setting();
      const queue = await setting().open({}, { historyRuns: 0 });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().pass(2 * SAMPLE_MS);
      expect(process.runs).toHaveLength(1);
      expect(await queue.history.runsOf('k')).toEqual([]);
      expect(await queue.history.runs({ limit: 10 })).toEqual({ runs: [] });
      expect((await queue.history.samples()).every(({ runs, waiting }) => runs === 0 && waiting === undefined)).toBe(
        true,
      );
    });

    it('is gone with all other data of the queue', async () => {
      const { queue, process } = setting();
      process.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true, error: 'no' });
      await queue.start(process);
      await queue.add(plain('k'));
      await setting().pass(2 * SAMPLE_MS);
      await setting().lose();
      expect(await queue.history.runsOf('k')).toEqual([]);
      expect(await queue.history.runs({ limit: 10 })).toEqual({ runs: [] });
      expect((await queue.history.samples()).every(({ runs }) => runs === 0)).toBe(true);
    });
  });

  describe('the samples of the last hour', () => {
    it('add up what all gateways have done, and end when nothing waits or runs', async () => {
      const { clock } = setting();
      const gateways = [await setting().open({ concurrency: 3 }), await setting().open({ concurrency: 3 })];
      const processes = gateways.map(() => setting().newProcess());
      for (const process of processes) {
        process.onRun = async ({ key }) => {
          await clock.sleep(1000);
          return key.startsWith('bad') ? { kind: 'ended', failures: 'keep', dead: true, error: 'no' } : done;
        };
      }
      for (const [at, queue] of gateways.entries()) await queue.start(processes[at] as (typeof processes)[number]);
      await gateways[0]?.add(plain(...numbered('good', 100), ...numbered('bad', 20)));
      await setting().pass(SAMPLE_MS * 2);
      for (const process of processes) expect(process.runs.length).toBeGreaterThan(0);
      const samples = (await gateways[1]?.history.samples()) ?? [];
      expect(samples).toEqual(await gateways[0]?.history.samples());
      expect(samples).toHaveLength(SAMPLES);
      expect(samples.every(({ atMs }, at) => at === 0 || atMs === (samples[at - 1]?.atMs ?? 0) + SAMPLE_MS)).toBe(true);
      expect(samples.reduce((sum, { runs }) => sum + runs, 0)).toBe(120);
      expect(samples.reduce((sum, { failed }) => sum + failed, 0)).toBe(20);
      const busy = samples.filter(({ runs }) => runs > 0);
      for (const { tookMs } of busy) expect(Math.abs((tookMs?.p50 ?? 0) - 1000)).toBeLessThan(100);
      expect(busy[0]?.waiting).toBeGreaterThan(0);
      expect(busy[0]?.running).toBeGreaterThan(0);
      await setting().pass(SAMPLE_MS * 2);
      expect((await gateways[0]?.history.samples())?.at(-1)).toMatchObject({ runs: 0 });
    });

    it('show keys that wait while nothing runs, also after the gateway that added them has ended', async () => {
      const { queue, process } = setting();
      await queue.pause('controller');
      await queue.addLow(numbered('k', 7), 'initial');
      await setting().pass(SAMPLE_MS);
      expect((await queue.history.samples()).at(-1)).toMatchObject({ runs: 0, waiting: 7 });
      await queue.stop(0);
      const next = await setting().open();
      await next.start(process);
      await setting().pass(SAMPLE_MS * 3);
      expect((await next.history.samples()).at(-1)).toMatchObject({ runs: 0, waiting: 7 });
      await next.resume('controller');
      await setting().pass(SAMPLE_MS * 2);
      expect((await next.history.samples()).slice(-3).reduce((sum, { runs }) => sum + runs, 0)).toBe(7);
    });
  });
}
