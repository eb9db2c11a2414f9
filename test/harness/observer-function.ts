import { setTimeout as sleep } from 'node:timers/promises';
import { controller, type Resource } from 'levelhook/function';
import { requiredVariable, serveController } from 'levelhook/function/node';
import { machineMs } from './machine-clock.ts';
import type { Observation, ObserverSpec } from './observer.ts';

const declared = JSON.parse(requiredVariable(process.env, 'OBSERVERS')) as ObserverSpec | ObserverSpec[];

/** The program of observers: controllers over any kinds that do nothing but tell what they were shown. */
await serveController(Array.isArray(declared) ? declared.map(observer) : observer(declared));

function observer({ onlyIn, delayMs = 0, readsAgain = false, ...options }: ObserverSpec) {
  const kind: Resource = 'resource' in options.for ? options.for.resource : options.for;
  const inTests = { timeoutSeconds: 1, concurrency: 10 };
  const running = new Set<string>();
  return controller({ ...inTests, ...options }).reconcile(
    async ({ namespace, name, attempt, reasons }, { cache, signal }) => {
      const [startedAtMs, startedAtMachineMs] = [Date.now(), machineMs()];
      // Kubernetes itself has a ConfigMap in every namespace.
      if (onlyIn !== undefined && (namespace !== onlyIn || name === 'kube-root-ca.crt')) return;
      const key = namespace === undefined ? name : `${namespace}/${name}`;
      const report = (msg: string): void => {
        process.stdout.write(`${JSON.stringify({ msg, controller: options.name, key })}\n`);
      };
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
        process.stdout.write(`${JSON.stringify(observation)}\n`);
        if (delayMs > 0) await sleep(delayMs, undefined, { signal });
        if (readsAgain) await read();
      } finally {
        if (signal.aborted) report('broken off');
        running.delete(key);
      }
    },
  );
}
