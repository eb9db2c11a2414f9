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

it('the controllers of one tenant together wake keys of a bounded length, and take none from others', async () => {
  const missed: string[] = [];
  const handlers = new ChangeHandlers((user) => void missed.push(user));
  const waking = (controller: string, length: number): void =>
    handlers.set(controller, [
      {
        needsOld: () => false,
        handle: () => [
          { controller, lookup: { view: 'v', entries: ['x'.repeat(length)] }, reasons: [] },
          { controller, key: 'a/b', reasons: [] },
        ],
      },
    ]);
  const names = Array.from({ length: 10 }, (_, at) => `hostile.${at}`);
  for (const name of names) waking(name, 300_000);
  waking('victim.a', 100);
  handlers.begin();
  const woken = await handlers.handle({ type: 'added', object });
  expect(new Set(woken.map(({ controller }) => controller))).toEqual(new Set([...names.slice(0, 6), 'victim.a']));
  expect(missed).toEqual(names.slice(6));
});

it('the keys that a lookup names count as keys', async () => {
  const missed: string[] = [];
  const handlers = new ChangeHandlers((user) => void missed.push(user));
  const keys = Array.from({ length: 10_001 }, (_, at) => `a/${at}`);
  const lookup = { view: 'v', entries: [], keys };
  handlers.set('controller', [
    { needsOld: () => false, handle: () => [{ controller: 'controller', lookup, reasons: [] }] },
  ]);
  handlers.begin();
  expect(await handlers.handle({ type: 'added', object })).toEqual([]);
  expect(missed).toEqual(['controller']);
});

it('a controller that is removed gets no more changes of the group, and has missed them if it comes back', async () => {
  const handlers = new ChangeHandlers((_, error) => expect.fail(String(error)));
  const calls: string[] = [];
  const set = (user: string): void =>
    handlers.set(user, [
      {
        needsOld: () => false,
        handle: () => {
          calls.push(user);
          return [];
        },
      },
    ]);
  set('gone');
  set('back');
  set('stays');
  const heard = handlers.begin();
  await handlers.handle({ type: 'added', object });
  expect(calls.splice(0)).toEqual(['gone', 'back', 'stays']);
  for (const user of ['gone', 'back']) handlers.delete(user);
  await handlers.handle({ type: 'added', object });
  expect(calls.splice(0)).toEqual(['stays']);
  set('back');
  expect(heard()).toEqual({ users: ['back', 'stays'], failed: ['back'] });
});
