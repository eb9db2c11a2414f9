import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { expect, it } from 'vitest';
import { type ReportJob, reports } from './report.ts';

const key = { namespace: 'a', name: 'b' };
const wanted = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...key, labels: { report: 'true' } } };

it('hands the work over with the token of the run, and does not when the report is there', async () => {
  const jobs: ReportJob[] = [];
  const controller = reports(async (job) => void jobs.push(job));
  const apiserver = new MemoryApiserver({ objects: [wanted] });
  const { outcome } = await runReconciler(controller, key, { apiserver });
  expect(outcome).toMatchObject({ status: 'accepted', withinSeconds: 60 });
  expect(jobs).toMatchObject([{ ...key, run: { controller: 'report', ...key, maxSeconds: 60 } }]);
  apiserver.put({ ...wanted, data: { report: 'done' } });
  expect((await runReconciler(controller, key, { apiserver })).outcome).toMatchObject({ status: 'done' });
  expect(jobs).toHaveLength(1);
});

it('fails when the work cannot be handed over, so that it is tried again', async () => {
  const controller = reports(async () => {
    throw new Error('the queue is full');
  });
  const apiserver = new MemoryApiserver({ objects: [wanted] });
  const { outcome } = await runReconciler(controller, key, { apiserver });
  expect(outcome).toMatchObject({ status: 'error', message: 'the queue is full' });
});
