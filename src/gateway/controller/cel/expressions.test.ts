import { describe, expect, it } from 'vitest';
import { InstantClock } from '../../../../test/harness/test-clock.ts';
import { LimitedLines, silentLogger, silentMetrics } from '../../../core/index.ts';
import { CpuBudgets } from './cpu-budget.ts';
import { Expressions } from './expressions.ts';

/** The reports of the fields of 50 controllers of a tenant, which may write five lines at once and one a second. */
function create() {
  const clock = new InstantClock();
  const lines: unknown[] = [];
  const logger = { ...silentLogger, warn: (fields: object) => void lines.push(fields) };
  const ofTenant = new LimitedLines(clock, { perSecond: 1, burst: 5 });
  const admitLine = () => ofTenant.admit('a');
  const budget = new CpuBudgets().of('a.web');
  const shared = { clock, logger, metrics: silentMetrics, budget, admitLine };
  const all = Array.from({ length: 50 }, (_, at) => new Expressions({ ...shared, controller: `a.${at}` }));
  const fail = (): void => {
    for (const each of all) {
      for (const field of ['for.predicate', 'watches.0.map']) {
        each.reporter(field)({ reason: 'error', message: 'failed' }, 'all');
      }
    }
  };
  return { clock, lines, all, fail };
}

describe('log lines about failed expressions', () => {
  it('are limited for a tenant, whatever the number of its controllers', () => {
    const { clock, lines, fail } = create();
    fail();
    expect(lines).toHaveLength(5);
    clock.advance(60_000);
    fail();
    expect(lines).toHaveLength(10);
    expect(lines[5]).toMatchObject({ controller: 'a.0', field: 'for.predicate', leftOut: 95 });
  });

  it('are one a minute for a field, which says how many were left out', () => {
    const { clock, lines, all } = create();
    const report = all[0]?.reporter('for.predicate');
    for (let second = 0; second <= 60; second += 1) {
      report?.({ reason: 'error', message: 'failed' }, 'passes');
      clock.advance(1000);
    }
    expect(lines).toEqual([
      { controller: 'a.0', field: 'for.predicate', reason: 'error' },
      { controller: 'a.0', field: 'for.predicate', reason: 'error', leftOut: 59 },
    ]);
  });
});
