import { resource } from 'levelhook/function';
import { heartbeat, type RunCredentials, type RunToken, runTransport } from 'levelhook/function/callback';

/** Handed over by the function that began the run: `RUN` in the environment, as JSON. */
export interface HandedOver {
  readonly runToken: RunToken;
  readonly runCredentials: RunCredentials;
  readonly secret: string;
  /** Of the ServiceAccount that it makes. */
  readonly metadata: { readonly namespace: string; readonly name: string };
}

// Finishes a run that another process has begun, and then tries to write once more.
const { metadata, runCredentials, runToken, secret } = JSON.parse(process.env['RUN'] ?? '') as HandedOver;
const accounts = resource('v1', 'ServiceAccount');
const api = runTransport(runCredentials);
const run = await heartbeat(runToken, { secrets: [secret], withinSeconds: 60, api });
await run.api.create(accounts, { metadata });
await run.complete({ status: 'done' });
const { status } = await api({
  method: 'POST',
  path: `/api/v1/namespaces/${metadata.namespace}/serviceaccounts`,
  contentType: 'application/json',
  body: JSON.stringify({ metadata: { name: `${metadata.name}-late` } }),
  signal: AbortSignal.timeout(60_000),
});
process.stdout.write(`${JSON.stringify({ late: status })}\n`);
