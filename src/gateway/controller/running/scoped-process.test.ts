import { expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { KeyScope } from '../handlers/key-scope.ts';
import type { Finish, Process, Run } from '../workqueue/work-queue.ts';
import { ScopedProcess } from './scoped-process.ts';

const run = (key: string): Run => ({ key, run: 1, incarnation: 'i', failures: 3, reasons: [], deadlineMs: 0 });
const again = (key: string): Finish => ({ kind: 'ended', failures: 'count', error: key });
const dropped: Finish = { kind: 'ended', failures: 'forget', sent: false };

it('keys of namespaces that are no longer declared are dropped, and the others get their own outcomes', async () => {
  const ran: string[] = [];
  const inner: Process = {
    run: (runs) => runs.map(async ({ key }) => (ran.push(key), again(key))),
    lost: async () => ({ kind: 'ended', failures: 'count' }),
    passed: async () => true,
    late: () => {},
  };
  const view = { contains: () => true } as unknown as View;
  const scope = new KeyScope(resource('v1', 'Pod'), { namespaces: ['a'] }, [view]);
  const process = new ScopedProcess(inner, scope);
  expect(await Promise.all(process.run(['b/1', 'a/1', 'b/2', 'a/2'].map(run)))).toEqual([
    dropped,
    again('a/1'),
    dropped,
    again('a/2'),
  ]);
  expect(await Promise.all(process.run([run('b/1')]))).toEqual([dropped]);
  expect(ran).toEqual(['a/1', 'a/2']);
});
