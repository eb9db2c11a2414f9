import { afterAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { type IndexSpec, uncountedIndex } from '../../../src/contract/cache-layout.ts';
import { backfill } from '../../../src/gateway/informer/cache/backfill.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { CpuBudgets } from '../../../src/gateway/controller/cel/cpu-budget.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';

const things = resource('example.com/v1', 'Thing');
const SPECS = Array.from({ length: 16 }, (_, at): IndexSpec => `field:spec.refs.${String.fromCharCode(97 + at)}`);
const MARKS = SPECS.map(uncountedIndex);

const redis: Redis = await connectRedis(inject('redisUrl'));
afterAll(() => redis.disconnect());

let version = 1;
const thing = (namespace: string, name: string, values: number): KubernetesObject => {
  version += 1;
  const metadata = { namespace, name, uid: `uid-${name}`, resourceVersion: String(version) };
  const refs = Array.from({ length: values }, (_, at) => ({ a: `x${at}` }));
  const object = { apiVersion: 'example.com/v1', kind: 'Thing', metadata, spec: { refs } };
  return object;
};

describe('the index values of large objects', () => {
  let view: View;
  let spentMs = 0;

  beforeEach(async () => {
    spentMs = 0;
    // A clock of its own: each value that is looked for takes a millisecond.
    let nowMs = 0;
    const budgets = new CpuBudgets({ now: () => nowMs, threadMs: () => nowMs });
    const { location } = createView(redis, things);
    view = new View(redis, things, location, undefined, {
      indexTime: (namespace) => {
        const budget = budgets.of(`${namespace}.`);
        return {
          get limitMs() {
            return budget.limitMs;
          },
          run: (work) =>
            budget.run(() => {
              nowMs += 20;
              spentMs += 20;
              return work();
            }),
        };
      },
    });
    await view.writer.claim('writer');
    view.indexer.maintain(SPECS);
    await applierOf(view).apply(listOf('1', []));
  });

  const marksOf = async (key: string): Promise<number> => {
    const [entry] = await view.objects.entries([key]);
    return entry?.indexEntries.filter((each) => MARKS.includes(each)).length ?? -1;
  };
  const change = (object: KubernetesObject) => applierOf(view).apply([{ kind: 'changed', object }]);

  it('are found in the time of their namespace, and the indexes that are left have the mark', async () => {
    for (let at = 0; at < 10; at += 1) await change(thing('hostile', 'large', 30_000));
    // A burst of 300 ms, in which a change is let go on to its end.
    expect(spentMs).toBeLessThan(500);
    expect(await marksOf('hostile/large')).toBe(SPECS.length);
    // Small ones cost nothing, and another namespace has time of its own.
    await change(thing('hostile', 'small', 10));
    await change(thing('victim', 'large', 100));
    expect([await marksOf('hostile/small'), await marksOf('victim/large')]).toEqual([0, 1]);
  });

  it('cost a small object their time, too, where many indexes look through it', async () => {
    await change(thing('hostile', 'alone', 10));
    expect(spentMs).toBe(0);
    await change(thing('hostile', 'small', 1000));
    expect(spentMs).toBeGreaterThan(0);
  });

  it('are bounded in a backfill as well', async () => {
    view.indexer.maintain([]);
    for (let at = 0; at < 10; at += 1) await change(thing('hostile', `large${at}`, 2000));
    await backfill(view, SPECS, new AbortController().signal);
    expect(spentMs).toBeLessThan(500);
    expect(await marksOf('hostile/large9')).toBe(SPECS.length);
  });

  it('are found by readers whom the index sends to the object', async () => {
    for (let at = 0; at < 10; at += 1) await change(thing('hostile', 'large', 30_000));
    await backfill(view, SPECS, new AbortController().signal);
    const selection = { index: { spec: SPECS[0] as IndexSpec, value: 'x29999' } };
    const state = await view.reader().state(selection);
    if (!state) throw new Error('the view is not complete');
    const found: string[] = [];
    for await (const batch of view.reader().select(selection, { state })) found.push(...batch.map(({ key }) => key));
    expect(found).toEqual(['hostile/large']);
  });
});
