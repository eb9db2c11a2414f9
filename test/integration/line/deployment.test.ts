import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, type Resource, resource, resourcePath } from '../../../src/core/index.ts';
import { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding } from '../../../src/function/kinds/index.ts';
import { type ControlPlane, resolveBinary, startControlPlane } from '../../../src/testing/index.ts';
import { ChangeWatch } from '../../harness/change-watch.ts';
import { Cluster, type Pod, pods, type ReplicaSet, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { deployment } from '../../harness/deployments.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import {
  createSetting,
  startFunction,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import type { TestProcess } from '../../harness/process.ts';
import { randomPodTemplate, randomTexts } from '../../harness/random-values.ts';
import { seededRandom } from '../../harness/seeded-random.ts';

interface Deployment extends KubernetesObject {
  spec: { replicas: number };
  status: { conditions?: { type: string; status: string; reason: string }[] } & Record<string, unknown>;
}

const deployments = resource<Deployment>('apps/v1', 'Deployment');
const events = resource<KubernetesObject & { reason: string; message: string }>('v1', 'Event');

const run = promisify(execFile);

describe('the deployment and replicaset functions behind a gateway, with simulated nodes', () => {
  const namespace = uniqueName('line');
  const key = { namespace, name: 'web' };
  const processes: TestProcess[] = [];
  let plane: ControlPlane;
  let cluster: Cluster;
  let gatewayUrl: string;
  let binary: string;
  const watches: { stop(): Promise<void> }[] = [];

  beforeAll(async () => {
    const controllers = ['*', '-replicaset-controller', '-deployment-controller'];
    plane = await startControlPlane({ kubeControllerManager: { controllers }, kwokNodes: 2 });
    binary = await resolveBinary('kubectl');
    cluster = await Cluster.connect(plane.kubeconfig);
    await cluster.createNamespace(namespace);
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    const functions = [await startFunction(setting, 'replicaset'), await startFunction(setting, 'deployment')];
    const gateway = await startGateway(
      setting,
      functions.map(({ url }) => url),
    );
    gatewayUrl = gateway.url;
    processes.push(gateway.process, ...functions.map(({ process }) => process));
    await untilReady(gateway.url);
  });

  afterEach(async () => {
    // Rejects with what a watch has seen that must not be.
    await Promise.all(watches.splice(0).map((watch) => watch.stop()));
  });

  afterAll(async () => {
    for (const process of processes) await process.kill('SIGTERM');
    await cluster?.close();
    await plane?.stop();
  });

  async function kubectl(...args: readonly string[]): Promise<string> {
    const { stdout } = await run(binary, ['--kubeconfig', plane.kubeconfig, '-n', namespace, ...args]);
    return stdout;
  }

  const rolledOut = () => kubectl('rollout', 'status', 'deployment/web', '--timeout=170s');
  const image = () => kubectl('get', 'deployment', 'web', '-o', 'jsonpath={.spec.template.spec.containers[0].image}');
  const revisions = async () =>
    [...(await kubectl('rollout', 'history', 'deployment/web')).matchAll(/^\d+/gm)].map(Number);
  const owned = async () => (await cluster.list(replicaSets, namespace)).items;
  const sizes = async () => (await owned()).map(({ spec }) => spec.replicas).toSorted((a, b) => b - a);

  async function condition(type: string) {
    const found = await cluster.get(deployments, key);
    return found?.status.conditions?.find((each) => each.type === type);
  }

  const triggers = () =>
    processes[0]?.lines.filter(({ msg, controller }) => msg === 'trigger' && controller === 'deployment') ?? [];

  /** Looks at all objects of a kind after each of their changes. What `look` throws fails the test at its end. */
  async function watchAll<T extends KubernetesObject>(of: Resource<T>, look: (all: readonly T[]) => void) {
    const all = new Map<string, T>();
    watches.push(
      await ChangeWatch.start(cluster, of, namespace, (type, object) => {
        if (type === 'DELETED') all.delete(object.metadata.name);
        else all.set(object.metadata.name, object);
        look([...all.values()]);
      }),
    );
  }

  /** From now on the ReplicaSets must never want more pods in all. */
  async function never(more: number): Promise<void> {
    const look = (sets: readonly ReplicaSet[]): void => {
      const total = sets.reduce((sum, { spec }) => sum + spec.replicas, 0);
      if (total > more) throw new Error(`${total} replicas at once: ${JSON.stringify(sets.map(({ spec }) => spec))}`);
    };
    await watchAll(replicaSets, look);
  }

  it('makes ReplicaSets and pods of each template as it is', async () => {
    const own = uniqueName('templates');
    await cluster.createNamespace(own);
    const random = seededRandom('templates');
    const items = Array.from({ length: 8 }, (_, at) => {
      const labels = { set: `set-${at}` };
      const metadata = `{"name":"${labels.set}","annotations":${randomTexts(random)}}`;
      const selector = `{"matchLabels":${JSON.stringify(labels)}}`;
      const spec = `{"selector":${selector},"template":${randomPodTemplate(random, labels)}}`;
      return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":${metadata},"spec":${spec}}`;
    });
    const file = join(await mkdtemp(join(tmpdir(), 'levelhook-')), 'deployments.json');
    await writeFile(file, `{"apiVersion":"v1","kind":"List","items":[${items.join()}]}`);
    await kubectl('-n', own, 'create', '-f', file);
    await rm(dirname(file), { recursive: true });
    const made = async (kind: string) => {
      const { items: all } = exact(await kubectl('-n', own, 'get', kind, '-o', 'json')) as { items: ReplicaSet[] };
      return new Map(
        all.map((each) => [each.spec.template?.metadata.labels['set'] ?? each.metadata.labels?.['set'], each]),
      );
    };
    await eventually(async () => expect((await made('pods')).size).toBe(items.length));
    await untilIdle(gatewayUrl);
    const [roots, sets, all] = [await made('deployments'), await made('replicasets'), await made('pods')];
    expect((await cluster.list(replicaSets, own)).items).toHaveLength(items.length);
    expect(roots.size).toBe(items.length);
    for (const [name, { metadata, spec }] of roots) {
      const { template } = spec;
      const { 'deployment.kubernetes.io/revision': _, ...annotations } = metadata.annotations ?? {};
      expect(sets.get(name), name).toMatchObject({ metadata: { annotations }, spec: { template } });
      expect(all.get(name), name).toMatchObject(template);
    }
    await cluster.deleteNamespace(own);
  });

  it('stops at one ReplicaSet, and says why, where a policy changes the template of each new one', async () => {
    const own = { namespace: uniqueName('policy'), name: 'changed' };
    await cluster.createNamespace(own.namespace);
    const name = own.namespace;
    const rule = { apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['replicasets'] };
    const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': name } };
    const annotate = '{metadata: Object.spec.template.metadata{annotations: {"policy": "was here"}}}';
    const expression = `Object{spec: Object.spec{template: Object.spec.template${annotate}}}`;
    await cluster.create(MutatingAdmissionPolicy, {
      metadata: { name },
      spec: {
        matchConstraints: { namespaceSelector, resourceRules: [rule] },
        mutations: [{ patchType: 'ApplyConfiguration', applyConfiguration: { expression } }],
        reinvocationPolicy: 'Never',
      },
    });
    await cluster.create(MutatingAdmissionPolicyBinding, { metadata: { name }, spec: { policyName: name } });
    // The apiserver learns of policies by its own watch.
    const untilChanged = (by: object) =>
      eventually(async () => {
        const path = resourcePath(replicaSets, { namespace: own.namespace });
        const { metadata, spec } = replicaSet({ ...own, name: 'tried' }, 0);
        const body = { apiVersion: 'apps/v1', kind: 'ReplicaSet', metadata, spec };
        const tried = await cluster.client.json<ReplicaSet>({ method: 'POST', path, query: { dryRun: 'All' }, body });
        expect(tried.spec.template?.metadata).toEqual({ labels: spec.template.metadata.labels, ...by });
      });
    await untilChanged({ annotations: { policy: 'was here' } });

    await cluster.create(deployments, deployment(own, 2));
    const reason = 'ReplicaSetTemplateChanged';
    const stopped = expect.objectContaining({ type: 'Progressing', status: 'False', reason }) as unknown;
    await eventually(async () => {
      const { conditions } = (await cluster.get(deployments, own))?.status ?? {};
      expect(conditions).toContainEqual(stopped);
    });
    const { metadata } = await cluster.patch(deployments, own, { spec: { revisionHistoryLimit: 5 } });
    await eventually(async () => {
      const { observedGeneration } = (await cluster.get(deployments, own))?.status ?? {};
      expect(observedGeneration).toBe(metadata.generation);
    });
    await untilIdle(gatewayUrl);
    const [made, ...more] = (await cluster.list(replicaSets, own.namespace)).items;
    expect(more).toEqual([]);
    expect((await cluster.get(deployments, own))?.status).not.toHaveProperty('collisionCount');

    // The condition advises to remove the policy and the ReplicaSet.
    await cluster.delete(MutatingAdmissionPolicyBinding, { name });
    await cluster.delete(MutatingAdmissionPolicy, { name });
    await untilChanged({});
    await cluster.delete(replicaSets, { ...own, name: made?.metadata.name ?? '' });
    await eventually(async () => {
      expect((await cluster.get(deployments, own))?.status).toMatchObject({ updatedReplicas: 2, availableReplicas: 2 });
    });
    await cluster.deleteNamespace(own.namespace);
  });

  it('rolls out the first revision', async () => {
    await kubectl('create', 'deployment', 'web', '--image=pause:1', '--replicas=5');
    await rolledOut();
    const { status } = (await cluster.get(deployments, key)) ?? {};
    expect(status).toMatchObject({ replicas: 5, updatedReplicas: 5, readyReplicas: 5, availableReplicas: 5 });
    expect(status).not.toHaveProperty('unavailableReplicas');
    expect(await condition('Available')).toMatchObject({ status: 'True', reason: 'MinimumReplicasAvailable' });
    expect(await condition('Progressing')).toMatchObject({ status: 'True', reason: 'NewReplicaSetAvailable' });
    expect(await revisions()).toEqual([1]);
    const [rs] = await owned();
    const told = (await cluster.list(events, namespace)).items.filter(({ reason }) => reason === 'ScalingReplicaSet');
    expect(told.map(({ message }) => message)).toEqual([`Scaled up replica set ${rs?.metadata.name} from 0 to 5`]);
  });

  it('looks and writes nothing when nothing has to change', async () => {
    await untilIdle(gatewayUrl);
    const seen = triggers().length;
    await cluster.patch(deployments, key, { metadata: { labels: { touched: 'yes' } } });
    const made = await eventually(async () => {
      const [trigger] = triggers().slice(seen);
      if (!trigger) throw new Error('the change of a label was not looked at');
      return trigger;
    });
    expect(made).toMatchObject({ outcome: 'done', writes: 0 });
  });

  it('rolls out a second, within the surge, and undoes it with the first ReplicaSet', async () => {
    await never(7);
    await kubectl('set', 'image', 'deployment/web', '*=pause:2');
    await rolledOut();
    expect(await revisions()).toEqual([1, 2]);
    expect(await sizes()).toEqual([5, 0]);
    const names = (await owned()).map(({ metadata }) => metadata.name);

    await kubectl('rollout', 'undo', 'deployment/web');
    await rolledOut();
    expect(await image()).toBe('pause:1');
    expect(await revisions()).toEqual([2, 3]);
    expect((await owned()).map(({ metadata }) => metadata.name)).toEqual(names);
    await kubectl('rollout', 'undo', 'deployment/web', '--to-revision=2');
    await rolledOut();
    expect(await image()).toBe('pause:2');
    expect(await revisions()).toEqual([3, 4]);
  });

  it('rolls nothing out while paused, but scales, and goes on when resumed', async () => {
    await kubectl('rollout', 'pause', 'deployment/web');
    await eventually(async () => expect(await condition('Progressing')).toMatchObject({ reason: 'DeploymentPaused' }));
    await kubectl('set', 'image', 'deployment/web', '*=pause:3');
    await kubectl('scale', 'deployment/web', '--replicas=6');
    await eventually(async () => {
      const { status, metadata } = (await cluster.get(deployments, key)) ?? {};
      expect(status).toMatchObject({ availableReplicas: 6, observedGeneration: metadata?.generation });
    });
    expect(await sizes()).toEqual([6, 0]);
    await kubectl('rollout', 'resume', 'deployment/web');
    await rolledOut();
    expect(await sizes()).toEqual([6, 0, 0]);
    expect(await revisions()).toEqual([3, 4, 5]);
  });

  it('restarts', async () => {
    const before = await owned();
    await kubectl('rollout', 'restart', 'deployment/web');
    await rolledOut();
    expect(await owned()).toHaveLength(before.length + 1);
    expect(await revisions()).toEqual([3, 4, 5, 6]);
  });

  it('says so when a rollout stands still, shares new replicas out meanwhile, and recovers', async () => {
    await cluster.patch(deployments, key, { spec: { progressDeadlineSeconds: 3 } });
    await kubectl('set', 'image', 'deployment/web', '*=pause:404');
    await expect(rolledOut()).rejects.toThrow('exceeded its progress deadline');
    expect(await condition('Progressing')).toMatchObject({ status: 'False', reason: 'ProgressDeadlineExceeded' });
    // Six: two more and one fewer.
    await eventually(async () => expect((await sizes()).slice(0, 3)).toEqual([5, 3, 0]));
    await kubectl('scale', 'deployment/web', '--replicas=12');
    await eventually(async () => expect((await sizes()).slice(0, 3)).toEqual([9, 6, 0]));
    // What follows may take longer, on a slow machine.
    await cluster.patch(deployments, key, { spec: { progressDeadlineSeconds: 600 } });
    await kubectl('rollout', 'undo', 'deployment/web');
    await rolledOut();
    expect((await sizes()).slice(0, 2)).toEqual([12, 0]);
  });

  it('keeps as many old revisions as it should', async () => {
    await cluster.patch(deployments, key, {
      spec: { revisionHistoryLimit: 1, replicas: 3 },
    });
    await eventually(async () => expect(await sizes()).toEqual([3, 0]));
  });

  it('recreates: no pod of the new template before the last of the old has ended', async () => {
    // A pod that has ended runs no more: as with the built-in controller, the rollout need not wait until it is
    // removed.
    const look = (all: readonly Pod[]): void => {
      const running = all.filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed');
      const templates = new Set(running.map(({ metadata }) => metadata.labels?.['pod-template-hash']));
      if (templates.size <= 1) return;
      const each = running.map(({ metadata: { name, deletionTimestamp, resourceVersion }, status }) =>
        JSON.stringify({ name, deletionTimestamp, resourceVersion, phase: status?.phase }),
      );
      throw new Error(`pods of ${[...templates].join(' and ')} at once:\n${each.join('\n')}`);
    };
    await cluster.patch(deployments, key, { spec: { strategy: { type: 'Recreate', rollingUpdate: null } } });
    await rolledOut();
    // Until the pods of the last scaling are gone too.
    await eventually(async () => expect((await cluster.list(pods, namespace)).items).toHaveLength(3));
    await watchAll(pods, look);
    await kubectl('set', 'image', 'deployment/web', '*=pause:4');
    await rolledOut();
    await eventually(async () => expect(await sizes()).toEqual([3, 0]));
  });

  it('adopts the ReplicaSet of a Deployment that was deleted without it, and its revision', async () => {
    const before = await owned();
    const found = await cluster.get(deployments, key);
    await kubectl('delete', 'deployment', 'web', '--cascade=orphan');
    await eventually(async () => {
      expect((await owned()).flatMap(({ metadata }) => metadata.ownerReferences ?? [])).toEqual([]);
    });
    const { annotations: _, ...metadata } = { ...found?.metadata, uid: undefined, resourceVersion: undefined };
    await cluster.create(deployments, { metadata, spec: found?.spec });
    await rolledOut();
    const after = await owned();
    expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    expect(new Set(after.map(({ metadata }) => metadata.ownerReferences?.[0]?.name))).toEqual(new Set(['web']));
  });

  it('leaves all to the garbage collector when it is deleted', async () => {
    await kubectl('delete', 'deployment', 'web');
    await eventually(async () => {
      expect(await owned()).toEqual([]);
      expect((await cluster.list(pods, namespace)).items).toEqual([]);
    });
  });
});
