import { describe } from 'vitest';
import { addsContract } from './adds.ts';
import { barriersContract } from './barriers.ts';
import { circuitContract } from './circuit.ts';
import { pausesContract } from './pauses.ts';
import { historyContract } from './history.ts';
import { lifecycleContract } from './lifecycle.ts';
import { limitsContract } from './limits.ts';
import { lostJobsContract } from './lost-jobs.ts';
import { oldestDueContract } from './oldest-due.ts';
import { priorityContract } from './priority.ts';
import { demandContract } from './demand.ts';
import type { CreateFixture } from './setting.ts';
import { statusContract } from './status.ts';
import { timesContract } from './times.ts';
import { unknownContract } from './unknown.ts';

/** The promises of `WorkQueue`, for every implementation of it, on a clock that stands still until a test moves it. */
export function workQueueContract(name: string, create: CreateFixture): void {
  const themes = [
    addsContract,
    timesContract,
    priorityContract,
    unknownContract,
    barriersContract,
    pausesContract,
    circuitContract,
    limitsContract,
    lifecycleContract,
    statusContract,
    historyContract,
    lostJobsContract,
    oldestDueContract,
    demandContract,
  ];
  describe(`${name} as a WorkQueue`, () => {
    for (const theme of themes) describe(theme.name, () => theme(create));
  });
}
