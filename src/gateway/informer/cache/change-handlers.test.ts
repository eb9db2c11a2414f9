import { expect, it } from 'vitest';
import { TimeSlice, threadMs } from '../../../ground/time-slice.ts';
import { ChangeHandlers } from './change-handlers.ts';

const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', uid: 'u', resourceVersion: '1' } };

/** Uses the processor, as an expression does that is cut off. */
function compute(ms: number): void {
  const endMs = threadMs() + ms;
  while (threadMs() < endMs);
}

it('a change that an expensive handler sees does not wait for the rest of a large object', async () => {
  const handlers = new ChangeHandlers((_, error) => expect.fail(String(error)));
  const handle = (): [] => {
    compute(15);
    return [];
  };
  handlers.set('controller', [{ needsOld: () => false, handle }]);
  handlers.begin();
  const ends: string[] = [];
  const large = new TimeSlice();
  compute(250);
  const rested = large.next().then(() => ends.push('a large object has rested'));
  const handled = handlers.handle({ type: 'added', object }).then(() => ends.push('the change has been handled'));
  await Promise.all([rested, handled]);
  expect(ends).toEqual(['the change has been handled', 'a large object has rested']);
});

it('other work has a turn between two expensive handlers', async () => {
  const handlers = new ChangeHandlers((_, error) => expect.fail(String(error)));
  const calls: string[] = [];
  for (const name of ['one', 'two']) {
    const handle = (): [] => {
      compute(15);
      calls.push(name);
      setImmediate(() => calls.push(`after ${name}`));
      return [];
    };
    handlers.set(name, [{ needsOld: () => false, handle }]);
  }
  handlers.begin();
  await handlers.handle({ type: 'added', object });
  expect(calls.slice(0, 3)).toEqual(['one', 'after one', 'two']);
});
