import { heartbeat, RunOverError } from 'levelhook/function/callback';
import type { ApiTransport } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';
import type { ReportJob } from './report.ts';

export interface WorkerOptions {
  /** The signing secrets of the function. */
  readonly secrets: readonly string[];
  readonly api: ApiTransport;
  /** Makes a part of the report, which takes a while. */
  readonly part: (number: number) => Promise<string>;
}

const PARTS = 3;

/** Makes the report of a job. Each heartbeat says that it goes on, and hands out the means to write. */
export async function makeReport({ name, namespace, run }: ReportJob, options: WorkerOptions): Promise<void> {
  const { api: transport, part, secrets } = options;
  const alive = () => heartbeat(run, { secrets, api: transport, withinSeconds: 60 });
  try {
    const parts: string[] = [];
    for (let number = 1; number <= PARTS; number += 1) {
      await alive();
      parts.push(await part(number));
    }
    const last = await alive();
    await last.api.patch(
      ConfigMap,
      { namespace, name },
      { type: 'merge', body: { data: { report: parts.join('\n') } } },
    );
    await last.complete({ status: 'done' });
  } catch (error) {
    // Too late: the key runs again, or has run. Nothing may be written for this run any more.
    if (error instanceof RunOverError) return;
    throw error;
  }
}
