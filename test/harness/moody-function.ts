import { setTimeout } from 'node:timers/promises';
import { controller, RetryAfterError, TerminalError } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { configMaps } from './cluster.ts';

/**
 * A controller over the ConfigMaps with the label `moody` and the value of MOODY, whose data says how each run ends:
 * `fail` is the text of its error, `retryAfter` after how many seconds it asks to be tried again, `terminal` of one
 * that is not tried again, `again` after how many seconds it is requeued, `writes` the name of a ConfigMap to which the
 * run writes, `seconds` how long it takes. Any other ConfigMap succeeds. Each run writes a line to its log.
 */
await serveController(
  controller({
    name: 'moody',
    for: { resource: configMaps, labelSelector: { matchLabels: { moody: process.env['MOODY'] ?? '' } } },
    concurrency: 4,
    queue: { maxAttempts: 3 },
  }).reconcile(async ({ namespace = '', name }, { cache, api, log }) => {
    log.info({ name }, 'looks at its data');
    const object = await cache.get(configMaps, { namespace, name });
    const { fail, terminal, again, writes, retryAfter, seconds = '0' } = object?.data ?? {};
    await setTimeout(Number(seconds) * 1000);
    if (writes !== undefined) {
      const body = { data: { writtenAt: String(Date.now()) } };
      await api.patch(configMaps, { namespace, name: writes }, { type: 'merge', body });
    }
    if (terminal !== undefined) throw new TerminalError(terminal);
    if (fail !== undefined && retryAfter !== undefined) throw new RetryAfterError(fail, Number(retryAfter));
    if (fail !== undefined) throw new Error(fail);
    return again === undefined ? {} : { requeueAfterSeconds: Number(again) };
  }),
);
