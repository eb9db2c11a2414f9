import { expect, it } from 'vitest';
import { LimitedLines, type LogFields, silentLogger, silentMetrics, systemClock } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { RunBarriers } from './run-barriers.ts';

it('few lines with a part of the barrier are written about barriers that cannot pass', async () => {
  let nowMs = 100_000;
  let version: () => string = () => '10';
  const clock = { ...systemClock, now: () => nowMs };
  const lines = new LimitedLines(clock, { perSecond: 1 / 3600, burst: 10 });
  const warned: LogFields[] = [];
  const view = { name: 'configmaps', location: { prefix: 'p' }, record: { state: async () => ({ incarnation: 'i' }) } };
  const barriers = new RunBarriers({
    controller: 'c',
    views: [{ view: view as unknown as View, currentVersion: async () => version(), requestProgress: () => {} }],
    budget: { run: (work) => work(), inTurn: async (work) => work(), charge: () => () => {} },
    isLeftOut: () => false,
    admitLine: () => lines.admit('tenant'),
    runtime: { clock, logger: { ...silentLogger, warn: (fields) => void warned.push(fields) }, metrics: silentMetrics },
  });
  const late = async (): Promise<void> => {
    nowMs += 20_000;
    const deleted = Array.from({ length: 500 }, (_, at) => [`a/${at}`, `uid-${at}`]);
    barriers.late(JSON.stringify({ p: { version: '99', endedAtMs: nowMs - 10_000, deleted } }));
    await new Promise((resolve) => setImmediate(resolve));
  };
  for (let at = 0; at < 5; at += 1) await late();
  expect(warned).toHaveLength(5);
  expect(warned[0]).toMatchObject({ controller: 'c', resource: 'configmaps' });
  expect(warned[0]?.['barrier']).toMatch(/^.{255}\u2026$/);
  version = () => {
    throw new Error('no connection');
  };
  for (let at = 0; at < 20; at += 1) await late();
  expect(warned).toHaveLength(10);
  expect(warned[9]).toEqual({ controller: 'c', resource: 'configmaps', error: 'no connection' });
});
