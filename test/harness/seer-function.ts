import { setTimeout as sleep } from 'node:timers/promises';
import { controller, controllerReference, type KubernetesObject, resource } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { configMaps } from './cluster.ts';
import { ROUNDS, SEER, type Sight } from './seer.ts';

const pods = resource<KubernetesObject & { spec: object }>('v1', 'Pod');

const pauseMs = Number(process.env['SEER_PAUSE_MS'] ?? 0);
const before = new Map<string, { round: number; made: string; deleted: string | undefined }>();

/**
 * The program of `startSeer`: each run of a ConfigMap with rounds to go makes one pod and deletes the one of the run
 * before, and looks first whether the cache shows what the run before did: the pod that it made, and none that it
 * deleted.
 */
await serveController(
  controller({ name: SEER, for: configMaps, owns: [pods], concurrency: 20, timeoutSeconds: 15 }).reconcile(
    async ({ namespace = '', name }, { cache, api }) => {
      if (namespace !== process.env['SEER_NAMESPACE']) return;
      const parent = await cache.get(configMaps, { namespace, name });
      const last = before.get(name);
      const round = (last?.round ?? 0) + 1;
      if (!parent || round > Number(parent.data?.[ROUNDS] ?? 0)) return;
      const made = last && (await cache.get(pods, { namespace, name: last.made }));
      const deleted = last?.deleted ? await cache.get(pods, { namespace, name: last.deleted }) : undefined;
      const sight: Sight = {
        msg: 'saw',
        parent: name,
        round,
        missed: last !== undefined && made === undefined,
        undead: deleted !== undefined && !deleted.metadata.deletionTimestamp,
      };
      process.stdout.write(`${JSON.stringify(sight)}\n`);
      // Its event wakes the key during the run, so that the next run waits for nothing but what this one wrote.
      const body = { metadata: { annotations: { round: String(round) } } };
      await api.patch(configMaps, { namespace, name }, { type: 'merge', body });
      if (pauseMs > 0) await sleep(Math.random() * pauseMs);
      const ownerReferences = [controllerReference(configMaps, parent)];
      const metadata = { namespace, generateName: `${name}-`, ownerReferences };
      const pod = await api.create(pods, { metadata, spec: { containers: [{ name: 'main', image: 'pause' }] } });
      // Set before the deletion, because the deadline may cut off the answer to the deletion.
      before.set(name, { round, made: pod.metadata.name, deleted: undefined });
      if (last) await api.delete(pods, { namespace, name: last.made }, { gracePeriodSeconds: 0 });
      before.set(name, { round, made: pod.metadata.name, deleted: last?.made });
      return { requeueAfterSeconds: 0.1 };
    },
  ),
);
