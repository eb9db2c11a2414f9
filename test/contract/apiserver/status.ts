import { describe, expect, it } from 'vitest';
import type { KubernetesObject, ObjectKey, Resource } from '../../../src/core/index.ts';
import type { NewObject } from '../../../src/function/index.ts';
import {
  CronJob,
  DaemonSet,
  Deployment,
  Ingress,
  Job,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  ReplicaSet,
  ReplicationController,
  Service,
  StatefulSet,
} from '../../../src/function/kinds/index.ts';
import type { ApiserverFixture, Site } from './fixture.ts';

/** The subresources status and scale, and the generation. */
export function statusContract(
  name: string,
  { api, key, code, configMap, deployment, site, Site }: ApiserverFixture,
): void {
  describe(`${name}: status, scale and generation`, () => {
    it('keeps a status out of other writes, and everything else out of those of the status', async () => {
      const at = key('status');
      const made = await api().create(Site(), {
        metadata: at,
        spec: { title: 'x' },
        status: { phase: 'Up' },
      } as object as NewObject<Site>);
      expect(made.status).toBeUndefined();
      const withStatus = await api().replace(Site(), { ...made, spec: {}, status: { phase: 'Up' } }, 'status');
      expect(withStatus).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
      const body = { spec: { title: 'y' }, status: { phase: 'Down' } };
      const patched = await api().patch(Site(), at, { type: 'merge', body });
      expect(patched).toMatchObject({ spec: { title: 'y' }, status: { phase: 'Up' } });
      expect([made, withStatus, patched].map(({ metadata }) => metadata.generation)).toEqual([1, 1, 2]);
    });

    it('lets a status write of a built-in kind change metadata too, as far as the kind does', async () => {
      const changed = { labels: { app: 'other' }, annotations: { a: 'b' } };
      const write = (kind: Resource, at: ObjectKey, status: object, metadata: object = changed) => {
        const body = { metadata, spec: { replicas: 5 }, status };
        return api().patch<KubernetesObject>(kind, at, { type: 'merge', body }, 'status');
      };
      const deployed = await api().create(Deployment, deployment(key('deployed')));
      expect(await write(Deployment, deployed.metadata, { collisionCount: 3 })).toMatchObject({
        metadata: { annotations: { a: 'b' }, labels: { app: deployed.metadata.name }, generation: 1 },
        spec: { replicas: 1 },
        status: { collisionCount: 3 },
      });
      const set = await api().create(ReplicaSet, deployment(key('set')));
      expect(await write(ReplicaSet, set.metadata, { observedGeneration: 1 })).toMatchObject({
        metadata: { ...changed, generation: 1 },
        spec: { replicas: 1 },
        status: { replicas: expect.any(Number), observedGeneration: 1 },
      });
      const containers = [{ name: 'main', image: 'pause' }];
      const pod = await api().create(Pod, { metadata: key('pod'), spec: { containers } });
      const { name: ownerName, uid } = (await configMap()).metadata;
      const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: ownerName, uid }];
      const told = await write(Pod, pod.metadata, { message: 'm' }, { ...changed, ownerReferences });
      expect(told.metadata).toMatchObject(changed);
      expect(told.metadata.ownerReferences ?? []).toEqual([]);
      const custom = await write(Site(), (await site()).metadata, { phase: 'Up' });
      expect(custom).toMatchObject({ spec: { title: 'x' }, status: { phase: 'Up' } });
      expect(custom.metadata).not.toHaveProperty('labels');
      expect(custom.metadata).not.toHaveProperty('annotations');
    });

    const template = (app: string, restartPolicy: string) => ({
      metadata: { labels: { app } },
      spec: { restartPolicy, containers: [{ name: 'main', image: 'pause' }] },
    });
    const workload = (app: string) => ({
      selector: { matchLabels: { app } },
      template: template(app, 'Always'),
    });
    const task = (app: string) => ({ template: template(app, 'Never') });
    it.each<[Resource, (app: string) => object, object]>([
      [
        DaemonSet,
        workload,
        { currentNumberScheduled: 0, numberMisscheduled: 0, desiredNumberScheduled: 0, numberReady: 0 },
      ],
      [Deployment, workload, {}],
      [ReplicaSet, workload, { replicas: 0 }],
      [StatefulSet, (app) => ({ ...workload(app), serviceName: app }), { replicas: 0, availableReplicas: 0 }],
      [ReplicationController, (app) => ({ selector: { app }, template: template(app, 'Always') }), { replicas: 0 }],
      [Job, task, {}],
      [CronJob, (app) => ({ schedule: '0 0 1 1 *', jobTemplate: { spec: task(app) } }), {}],
      [Ingress, (app) => ({ defaultBackend: { service: { name: app, port: { number: 80 } } } }), { loadBalancer: {} }],
      [Service, () => ({ ports: [{ port: 80 }] }), { loadBalancer: {} }],
      [
        PodDisruptionBudget,
        () => ({ maxUnavailable: 1 }),
        { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
      ],
      [
        PersistentVolumeClaim,
        () => ({ accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } }),
        { phase: 'Pending' },
      ],
    ])('gives a new object of a built-in kind the status that it always has: $kind', async (kind, spec, status) => {
      const at = key('new');
      const made = await api().create<KubernetesObject>(kind, {
        metadata: at,
        spec: spec(at.name),
      } as object as NewObject<KubernetesObject>);
      expect(made).toHaveProperty('status', status);
      await api().delete(kind, at, { propagationPolicy: 'Background' });
    });

    it('gives a new pod a phase', async () => {
      const containers = [{ name: 'main', image: 'pause' }];
      const pod = await api().create(Pod, { metadata: key('pod'), spec: { containers } });
      expect(pod.status).toMatchObject({ phase: 'Pending' });
    });

    it('counts changes of what is asked for, and a delete, as a generation', async () => {
      const made = await site();
      const patch = (body: object) => api().patch(Site(), made.metadata, { type: 'merge', body });
      expect((await patch({ metadata: { labels: { a: 'b' } } })).metadata.generation).toBe(1);
      expect((await patch({ spec: { title: 'y' }, metadata: { finalizers: ['a.b/c'] } })).metadata.generation).toBe(2);
      await api().delete(Site(), made.metadata);
      expect((await api().get(Site(), made.metadata))?.metadata.generation).toBe(3);
      await patch({ metadata: { finalizers: null } });
    });

    it.each([
      [
        'a built-in kind',
        () => api().create(ReplicaSet, { ...(deployment(key('rs')) as NewObject<ReplicaSet>) }),
        () => ReplicaSet,
      ],
      ['a custom kind', () => site({ replicas: 1 }), () => Site()],
    ])('scales %s', async (_, make, of) => {
      const { metadata } = await make();
      const scale = await api().getScale(of(), metadata);
      expect(scale).toMatchObject({ kind: 'Scale', metadata: { uid: metadata.uid }, spec: { replicas: 1 } });
      const set = await api().setScale(of(), metadata, 3);
      const live = await api().get<KubernetesObject>(of(), metadata);
      expect(live).toMatchObject({ spec: { replicas: 3 } });
      expect(set.metadata.resourceVersion).toBe(live?.metadata.resourceVersion);
      const { resourceVersion } = metadata;
      await expect(api().setScale(of(), metadata, 4, { resourceVersion })).rejects.toEqual(code(409));
    });
  });
}
