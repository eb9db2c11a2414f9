import { controller, TerminalError } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

const TTL = 'example.com/ttl-seconds';

/**
 * Deletes every ConfigMap labelled `expires: "true"` when its age reaches its annotation `example.com/ttl-seconds`.
 * @param now milliseconds since the epoch. Default: the clock of the machine.
 */
export const expiry = (now: () => number = Date.now) =>
  controller({
    name: 'expiry',
    for: { resource: ConfigMap, labelSelector: { matchLabels: { expires: 'true' } } },
    writes: [{ resource: ConfigMap, verbs: ['delete'] }],
  }).reconcile(async (request, { api, cache }) => {
    const found = await cache.get(ConfigMap, request);
    if (!found || found.metadata.deletionTimestamp) return;
    const { annotations, creationTimestamp = '', resourceVersion, uid } = found.metadata;
    const seconds = Number(annotations?.[TTL]);
    // The next event may bring another value: there is no use in trying again.
    if (!(seconds > 0)) throw new TerminalError(`the annotation ${TTL} must be a number of seconds`);
    const leftSeconds = Date.parse(creationTimestamp) / 1000 + seconds - now() / 1000;
    // The time is in Redis: it survives restarts, and the function may sleep until then.
    if (leftSeconds > 0) return { requeueAfterSeconds: Math.max(leftSeconds, 0.1) };
    // The preconditions keep an object that has changed since, and a new one of this name.
    await api.delete(ConfigMap, request, { preconditions: { resourceVersion, uid } });
    return {};
  });
