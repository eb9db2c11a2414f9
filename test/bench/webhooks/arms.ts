import { copyFile, mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { startRedis } from '../../../src/testing/index.ts';
import { createSetting, startFunctionProcess, startGateway, untilReady } from '../../harness/levelhook.ts';
import { TestProcess } from '../../harness/process.ts';
import type { Started } from '../../harness/started.ts';
import { type ReviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { buildOperator } from '../line/controller-runtime/build.ts';

/** An arm whose processes run. */
export interface WebhookArm {
  /** Of its webhook; undefined for the arm that has none. */
  readonly url: string | undefined;
  readonly pids: readonly number[];
}

export type WebhookArmName = keyof typeof webhookArms;

type StartArm = (
  started: Started,
  setting: { readonly kubeconfig: string; readonly serving: ReviewServing },
) => Promise<WebhookArm>;

const FUNCTION = 'test/bench/webhooks/function.ts';
const say = (line: string): boolean => process.stderr.write(`${line}\n`);

export const webhookArms = {
  'no webhook': async () => ({ url: undefined, pids: [] }),
  'controller-runtime': controllerRuntime,
  direct,
  'through the gateway': throughGateway,
} satisfies Readonly<Record<string, StartArm>>;

async function controllerRuntime(started: Started, { serving }: Parameters<StartArm>[1]): Promise<WebhookArm> {
  const program = await buildOperator(say);
  const directory = join(await started.directory(), 'webhook');
  await mkdir(directory);
  await copyFile(serving.settings['LEVELHOOK_WEBHOOK_TLS_CERT_FILE'] ?? '', join(directory, 'tls.crt'));
  await copyFile(serving.settings['LEVELHOOK_WEBHOOK_TLS_KEY_FILE'] ?? '', join(directory, 'tls.key'));
  const port = await freePort();
  const variables = { BENCH_WEBHOOK_CERTIFICATE: directory, BENCH_WEBHOOK_PORT: `${port}` };
  // `TestProcess` puts its first argument where Node has the script.
  const operator = new TestProcess('no-kubeconfig', [], variables, [program]);
  started.keep({ process: operator });
  await operator.line(({ msg }) => msg === 'listening');
  return { url: `https://127.0.0.1:${port}/validate`, pids: [operator.pid] };
}

async function direct(started: Started, { kubeconfig, serving }: Parameters<StartArm>[1]): Promise<WebhookArm> {
  const setting = createSetting({ kubeconfig, redisUrl: '' });
  const variables = {
    LEVELHOOK_UNSIGNED_REVIEWS: 'true',
    TLS_CERT_FILE: serving.settings['LEVELHOOK_WEBHOOK_TLS_CERT_FILE'] ?? '',
    TLS_KEY_FILE: serving.settings['LEVELHOOK_WEBHOOK_TLS_KEY_FILE'] ?? '',
  };
  const fn = started.keep(await startFunctionProcess(setting, FUNCTION, { variables }));
  return { url: `${fn.url}/webhooks/changes`, pids: [fn.process.pid] };
}

async function throughGateway(started: Started, { kubeconfig, serving }: Parameters<StartArm>[1]): Promise<WebhookArm> {
  const redis = await startRedis({ onProgress: say, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const setting = createSetting({ kubeconfig, redisUrl: redis.url });
  const fn = started.keep(await startFunctionProcess(setting, FUNCTION, {}));
  const gateway = started.keep(await startGateway(setting, [fn.url], serving.settings));
  await untilReady(gateway.url);
  const url = `${await reviewsUrl(gateway)}/webhooks/reviewer/changes`;
  return { url, pids: [gateway.process.pid, fn.process.pid, ...(redis.pid === undefined ? [] : [redis.pid])] };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (typeof address !== 'object' || !address) throw new Error('no port is free');
  return address.port;
}
