import { kubeConfigTransport, serveController } from 'levelhook/function/node';
import { reports } from './report.ts';
import { makeReport } from './worker.ts';

const secrets = (process.env['LEVELHOOK_SIGNING_SECRETS'] ?? '').split(/[\s,]+/);
const api = kubeConfigTransport(process.env['KUBECONFIG']);
const seconds = Number(process.env['PART_SECONDS'] ?? 20);
const part = async (number: number): Promise<string> => {
  await new Promise((wake) => setTimeout(wake, seconds * 1000));
  return `part ${number}`;
};

// Here the worker is this process. In production it would take its jobs from a queue: a function may be stopped between
// two runs.
await serveController(
  reports(async (job) => {
    makeReport(job, { secrets, api, part }).catch((error: unknown) => {
      process.stderr.write(`the report of ${job.namespace}/${job.name} was given up: ${String(error)}\n`);
    });
  }),
);
