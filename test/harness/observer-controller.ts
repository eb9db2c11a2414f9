import { setTimeout as sleep } from 'node:timers/promises';
import { type Controller, controller, type Resource } from 'levelhook/function';
import { validatingWebhook } from 'levelhook/function/webhooks';
import { machineMs } from './machine-clock.ts';
import type { Observation, ObserverSpec } from './observer.ts';
import type { Line } from './program.ts';

/** A controller over any kind that does nothing but tell what it was shown. */
export function observerController(
  { onlyIn, allows, names, delayMs = 0, readsAgain = false, ...options }: ObserverSpec,
  tell: (line: Line) => void,
): Controller {
  const kind: Resource = 'resource' in options.for ? options.for.resource : options.for;
  const inTests = { timeoutSeconds: 1, concurrency: 10 };
  const running = new Set<string>();
  const webhooks =
    allows === undefined
      ? {}
      : { webhooks: [validatingWebhook({ name: allows, for: kind, operations: ['CREATE'] }).validate(async () => {})] };
  return controller({ ...inTests, ...options, ...webhooks }).reconcile(
    async ({ namespace, name, attempt, reasons }, { cache, related, signal }) => {
      const [startedAtMs, startedAtMachineMs] = [Date.now(), machineMs()];
      // Kubernetes itself has a ConfigMap in every namespace.
      if (onlyIn !== undefined && (namespace !== onlyIn || name === 'kube-root-ca.crt')) return;
      const key = namespace === undefined ? name : `${namespace}/${name}`;
      const report = (msg: string): void => tell({ msg, controller: options.name, key });
      if (running.has(key)) report('overlap');
      running.add(key);
      try {
        const read = () => cache.get(kind, namespace === undefined ? { name } : { namespace, name });
        const object = await read();
        const observation: Observation = {
          msg: 'observed',
          controller: options.name,
          key,
          uid: object?.metadata.uid ?? null,
          resourceVersion: object?.metadata.resourceVersion ?? null,
          reasons,
          attempt,
          startedAtMs,
          startedAtMachineMs,
        };
        tell({ ...observation });
        if (names) related(names);
        if (delayMs > 0) await sleep(delayMs, undefined, { signal });
        if (readsAgain) await read();
      } finally {
        if (signal.aborted) report('broken off');
        running.delete(key);
      }
    },
  );
}
