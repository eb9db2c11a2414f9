import { afterAll, expect, inject, it } from 'vitest';
import { freePort } from '../../../src/testing/process/free-port.ts';
import { createSetting, startFunction, untilReady } from '../../harness/levelhook.ts';
import { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();
afterAll(() => started.stop());

it('a gateway whose log is silent writes the audit log, and nothing else', async () => {
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const fn = started.keep(await startFunction(setting, 'examples/01-minimal'));
  // It does not log where it listens.
  const port = await freePort();
  const args = ['gateway', '--kubeconfig', setting.kubeconfig, '--port', String(port)];
  const { process: gateway } = started.keep({
    process: new TestProcess('src/cli/levelhook.js', args, {
      REDIS_URL: setting.redisUrl,
      LEVELHOOK_KEY_PREFIX: setting.keyPrefix,
      LEVELHOOK_SIGNING_SECRETS: setting.secret,
      LEVELHOOK_FUNCTIONS: fn.url,
      LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
      LEVELHOOK_LOG_LEVEL: 'silent',
    }),
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url);
  const answer = await fetch(`${url}/queues/greeting/pause`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ scope: 'controller' }),
  });
  expect(answer.status, await answer.text()).toBe(200);
  await gateway.kill('SIGTERM');
  expect(gateway.lines).toEqual([
    expect.objectContaining({ audit: true, user: 'local', action: 'pause', controller: 'greeting', result: 'done' }),
  ]);
});
