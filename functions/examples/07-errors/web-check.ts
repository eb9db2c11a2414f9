import { controller, RetryAfterError, TerminalError } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

const RESULT = 'example.com/status';

/** Asks the URL in the data of every ConfigMap labelled `check: "true"`, and writes the status into an annotation. */
export const webCheck = controller({
  name: 'web-check',
  for: { resource: ConfigMap, labelSelector: { matchLabels: { check: 'true' } } },
  writes: [{ resource: ConfigMap, verbs: ['patch'] }],
  concurrency: 5,
  // Five failures in a row make a dead letter, which the next event or a person runs again.
  queue: { maxAttempts: 5, rateLimit: { perSecond: 10, burst: 20 } },
}).reconcile(async (request, { api, cache, signal }) => {
  const found = await cache.get(ConfigMap, request);
  if (!found || found.metadata.deletionTimestamp) return;
  const url = found.data?.['url'] ?? '';
  if (!URL.canParse(url)) throw new TerminalError(`data.url is no URL: "${url}"`);
  const answer = await fetch(url, { signal });
  await answer.body?.cancel();
  if (answer.status === 429 || answer.status === 503) {
    const seconds = Number(answer.headers.get('retry-after'));
    throw new RetryAfterError(`${url} is busy`, seconds > 0 ? seconds : 0);
  }
  // A failure as any other: it is retried with backoff.
  if (answer.status >= 500) throw new Error(`${url} answered ${answer.status}`);
  const status = String(answer.status);
  if (found.metadata.annotations?.[RESULT] === status) return;
  await api.patch(ConfigMap, request, { type: 'merge', body: { metadata: { annotations: { [RESULT]: status } } } });
});
