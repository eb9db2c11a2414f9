import * as fc from 'fast-check';
import { keyOf, parseJson } from 'levelhook/function';
import { type MemoryApiserver, runReconciler, testContext } from 'levelhook/testing/reconciler';
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Pod } from '../lib/pod.ts';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { pod } from '../lib/testing.ts';
import { conditionOf } from './conditions.ts';
import { deployment } from './controller.ts';
import { limitsOf } from './limits.ts';
import { TEMPLATE_HASH } from './template.ts';
import {
  apiserverWith,
  attempt,
  eventsOf,
  revision,
  rollOut,
  run,
  setsOf,
  settle,
  templateOf,
  webDeployment,
  webOf,
} from './testing.ts';
import { Deployment } from './types.ts';

const REVISION = 'deployment.kubernetes.io/revision';
const deletionTimestamp = '2026-01-01T00:00:00Z';
const statusWrite = { verb: 'update', resource: 'deployments', subresource: 'status' };
const createSet = { verb: 'create', resource: 'replicasets' } as const;

/** For a test of Events: the recorder remembers the Events of other tests' Deployments. */
const ofItsOwn = (metadata: object = {}) => ({ metadata: { uid: randomUUID(), ...metadata } });

const sizesOf = (apiserver: MemoryApiserver) => setsOf(apiserver).map(({ spec }) => spec.replicas);
const reasonOf = (apiserver: MemoryApiserver) => conditionOf(webOf(apiserver).status, 'Progressing')?.reason;

/** A change by a user. */
function change(apiserver: MemoryApiserver, spec: Partial<Deployment['spec']>): void {
  const before = webOf(apiserver);
  apiserver.put({ ...before, spec: { ...before.spec, ...spec } });
}

async function rolledOut(spec: Partial<Deployment['spec']> = {}): Promise<MemoryApiserver> {
  const apiserver = apiserverWith(webDeployment(spec));
  await rollOut(apiserver);
  return apiserver;
}

describe('the deployment controller', () => {
  it('does nothing for a Deployment that is gone', async () => {
    const apiserver = apiserverWith();
    expect((await attempt(apiserver)).outcome).toEqual({ status: 'done', writes: [] });
    expect(apiserver.requests).toEqual([]);
  });

  it('keeps integers of 64 bits of the template, and finds its ReplicaSet again', async () => {
    const seconds = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).chain((value) =>
      // JSON gives exact integers as numbers, so this does too.
      fc.nat({ max: 63 }).map((bits) => parseJson(String(value >> BigInt(bits)))),
    );
    const given = fc.record({ terminationGracePeriodSeconds: seconds, tolerations: fc.array(seconds) });
    await fc.assert(
      fc.asyncProperty(given, async ({ tolerations, ...rest }) => {
        const spec = { ...rest, tolerations: tolerations.map((tolerationSeconds) => ({ tolerationSeconds })) };
        const template = { ...templateOf(1), spec } as Deployment['spec']['template'];
        const apiserver = await rolledOut({ template });
        const [set, ...more] = setsOf(apiserver);
        expect(set?.spec.template.spec).toEqual(spec);
        expect(more).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });

  it('makes the first ReplicaSet and tells of it, with one write of the status', async () => {
    const apiserver = apiserverWith(webDeployment({ minReadySeconds: 5 }, ofItsOwn({ annotations: { team: 'a' } })));
    const result = await run(apiserver);
    expect(result.writes).toMatchObject([createSet, { verb: 'create', resource: 'events' }, statusWrite]);
    const [rs] = setsOf(apiserver);
    const hash = rs?.metadata.labels?.[TEMPLATE_HASH] ?? '';
    const labels = { app: 'web', [TEMPLATE_HASH]: hash };
    expect(rs).toMatchObject({
      metadata: {
        name: `web-${hash}`,
        labels,
        annotations: {
          team: 'a',
          [REVISION]: '1',
          'deployment.kubernetes.io/desired-replicas': '3',
          'deployment.kubernetes.io/max-replicas': '4',
        },
        ownerReferences: [{ kind: 'Deployment', name: 'web', controller: true }],
      },
      spec: { replicas: 3, minReadySeconds: 5, selector: { matchLabels: labels }, template: { metadata: { labels } } },
    });
    expect(webOf(apiserver).metadata.annotations).toEqual({ team: 'a', [REVISION]: '1' });
    expect(conditionOf(webOf(apiserver).status, 'Progressing')).toMatchObject({
      reason: 'NewReplicaSetCreated',
      message: `Created new replica set "web-${hash}"`,
    });
    expect(eventsOf(apiserver)).toEqual([`Normal ScalingReplicaSet Scaled up replica set web-${hash} from 0 to 3`]);
    expect(result.requeueAfterSeconds).toBeGreaterThan(599);
  });

  it('is still after it has reached its goal', async () => {
    const apiserver = await rolledOut();
    expect(webOf(apiserver).status).toMatchObject({ replicas: 3, updatedReplicas: 3, availableReplicas: 3 });
    expect(reasonOf(apiserver)).toBe('NewReplicaSetAvailable');
    apiserver.clearRequests();
    expect((await run(apiserver)).requeueAfterSeconds).toBeUndefined();
    expect(apiserver.requests).toEqual([]);
  });

  it('rolls a new template out, and back to the ReplicaSet of the old one', async () => {
    const apiserver = await rolledOut({ replicas: 10 });
    change(apiserver, { template: templateOf(2) });
    await rollOut(apiserver);
    expect(sizesOf(apiserver)).toEqual([0, 10]);
    expect(webOf(apiserver).metadata.annotations?.[REVISION]).toBe('2');
    change(apiserver, { template: templateOf(1) });
    await rollOut(apiserver);
    expect(sizesOf(apiserver)).toEqual([10, 0]);
    expect(setsOf(apiserver)[0]?.metadata.annotations).toMatchObject({
      [REVISION]: '3',
      'deployment.kubernetes.io/revision-history': '1',
    });
    expect(webOf(apiserver).metadata.annotations?.[REVISION]).toBe('3');
  });

  it('takes over the ReplicaSets that another controller has made', async () => {
    const current = revision(2, 3);
    const apiserver = apiserverWith(webDeployment({ template: templateOf(2) }), revision(1, 0), current);
    expect((await run(apiserver)).writes).toMatchObject([statusWrite]);
    expect(setsOf(apiserver).map(({ metadata }) => metadata.name)).toEqual(['web-1', 'web-2']);
  });

  it('adopts an orphan and lets go of what matches no more', async () => {
    const orphan = revision(1, 3, { metadata: { ownerReferences: [] } });
    const stranger = revision(2, 0, { metadata: { labels: { app: 'other' } } });
    const apiserver = apiserverWith(webDeployment(), orphan, stranger);
    await run(apiserver);
    expect(setsOf(apiserver).map(({ metadata }) => metadata.ownerReferences?.length)).toEqual([1, undefined]);
    expect(webOf(apiserver).status.updatedReplicas).toBe(3);
  });

  it('while paused scales and cleans up, and makes no ReplicaSet; resumed it goes on', async () => {
    const apiserver = await rolledOut();
    change(apiserver, { paused: true, template: templateOf(2), replicas: 5 });
    await rollOut(apiserver);
    expect(sizesOf(apiserver)).toEqual([5]);
    expect(reasonOf(apiserver)).toBe('DeploymentPaused');
    expect(webOf(apiserver).status).toMatchObject({ updatedReplicas: 0, availableReplicas: 5, observedGeneration: 2 });
    change(apiserver, { paused: false, revisionHistoryLimit: 0 });
    await run(apiserver);
    expect(reasonOf(apiserver)).toBe('NewReplicaSetCreated');
    await rollOut(apiserver);
    expect(sizesOf(apiserver)).toEqual([5]);
    expect(setsOf(apiserver)[0]?.spec.template.metadata?.annotations).toEqual({ version: '2' });
  });

  it('cleans up while paused, and otherwise when a rollout is complete, not before', async () => {
    const history = [revision(1, 0), revision(2, 0)];
    const spec = { template: templateOf(3), revisionHistoryLimit: 1 };
    const names = (apiserver: MemoryApiserver) => setsOf(apiserver).map(({ metadata }) => metadata.name);
    const paused = apiserverWith(webDeployment({ ...spec, paused: true }), ...history, revision(3, 2));
    await run(paused);
    expect(names(paused)).toEqual(['web-2', 'web-3']);
    const rolling = apiserverWith(
      webDeployment(spec),
      ...history,
      revision(3, 3, { status: { availableReplicas: 2 } }),
    );
    await run(rolling);
    expect(names(rolling)).toEqual(['web-1', 'web-2', 'web-3']);
    await rollOut(rolling);
    expect(names(rolling)).toEqual(['web-2', 'web-3']);
  });

  it('shares new replicas out in the middle of a rollout, before it takes the rollout further', async () => {
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } } as const;
    const apiserver = await rolledOut({ replicas: 10, strategy });
    change(apiserver, { template: templateOf(2) });
    const stuck = (rs: ReplicaSet): boolean => rs.spec.template.metadata?.annotations?.['version'] === '1';
    await rollOut(apiserver, stuck);
    expect(sizesOf(apiserver)).toEqual([8, 5]);
    change(apiserver, { replicas: 15 });
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([11, 7]);
  });

  it('recreates when the last old pod is gone', async () => {
    const apiserver = await rolledOut({ strategy: { type: 'Recreate' } });
    change(apiserver, { template: templateOf(2) });
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([0]);
    settle(apiserver);
    const [old] = setsOf(apiserver);
    const { name = '', uid = '' } = old?.metadata ?? {};
    const ownedBy = (kind: string, of: string) => [{ apiVersion: 'apps/v1', kind, name: of, uid, controller: true }];
    const last = pod('last', { metadata: { ownerReferences: ownedBy('ReplicaSet', name), deletionTimestamp } });
    apiserver.put(last);
    // kube-controller-manager's index has these for no ReplicaSet.
    apiserver.put(pod('other-kind', { metadata: { ownerReferences: ownedBy('Job', name) } }));
    apiserver.put(pod('other-name', { metadata: { ownerReferences: ownedBy('ReplicaSet', 'x') } }));

    // Its ReplicaSet does not count it, so nothing would wake the key.
    expect((await run(apiserver)).requeueAfterSeconds).toBe(1);
    if (old) apiserver.put({ ...old, status: { ...old.status, terminatingReplicas: 1 } });
    expect((await run(apiserver)).requeueAfterSeconds).toBeUndefined();
    expect(sizesOf(apiserver)).toEqual([0]);

    apiserver.remove(Pod, keyOf(last));
    const ownerReferences = ownedBy('ReplicaSet', name);
    apiserver.put(pod('ended', { metadata: { ownerReferences }, status: { phase: 'Succeeded' } }));
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([0, 3]);
    await rollOut(apiserver);
    expect(reasonOf(apiserver)).toBe('NewReplicaSetAvailable');
  });

  it('recreates whatever pods of another namespace name the old ReplicaSet', async () => {
    const apiserver = await rolledOut({ strategy: { type: 'Recreate' } });
    change(apiserver, { template: templateOf(2) });
    await run(apiserver);
    settle(apiserver);
    const [old] = setsOf(apiserver);
    const { name = '', uid = '' } = old?.metadata ?? {};
    const ownerReferences = [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name, uid, controller: true }];
    apiserver.put(pod('foreign', { metadata: { namespace: 'evil', ownerReferences, deletionTimestamp } }));
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([0, 3]);
  });

  it('takes no ReplicaSet of another namespace for its own', async () => {
    const apiserver = await rolledOut();
    apiserver.clearRequests();
    apiserver.put(revision(7, 9, { metadata: { namespace: 'evil' } }));
    await run(apiserver);
    expect(apiserver.writes).toEqual([]);
  });

  it('does not make the new ReplicaSet before the old ones say that their pods are going', async () => {
    const apiserver = await rolledOut({ strategy: { type: 'Recreate' } });
    change(apiserver, { template: templateOf(2) });
    await run(apiserver);
    expect((await run(apiserver)).requeueAfterSeconds).toBeUndefined();
    expect(sizesOf(apiserver)).toEqual([0]);
  });

  it('recreates after old pods that were about to be made, too', async () => {
    const old = revision(1, 3, { status: { replicas: 0 } });
    const apiserver = apiserverWith(webDeployment({ strategy: { type: 'Recreate' }, template: templateOf(2) }), old);
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([0]);
  });

  it('keeps the status of a Deployment that is being deleted, and nothing else', async () => {
    const deleting = webDeployment(
      { replicas: 7 },
      { metadata: { deletionTimestamp, finalizers: ['foregroundDeletion'] } },
    );
    const apiserver = apiserverWith(deleting, revision(1, 3));
    expect((await run(apiserver)).writes).toMatchObject([statusWrite]);
    expect(webOf(apiserver).status.replicas).toBe(3);
  });

  it('warns of an empty selector', async () => {
    const apiserver = apiserverWith(webDeployment({ selector: {} }, ofItsOwn()), revision(1, 3));
    expect((await run(apiserver)).writes).toMatchObject([{ verb: 'create', resource: 'events' }, statusWrite]);
    expect(eventsOf(apiserver)).toEqual([
      'Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.',
    ]);
  });

  it('says in the status and an Event why no ReplicaSet could be made', async () => {
    const apiserver = apiserverWith(webDeployment({}, ofItsOwn()));
    apiserver.fail(createSet, { code: 403, message: 'exceeded quota' });
    expect((await attempt(apiserver)).outcome).toMatchObject({ status: 'error', message: 'exceeded quota' });
    const message = expect.stringMatching(/^Failed to create new replica set "web-\w+": exceeded quota$/) as unknown;
    expect(conditionOf(webOf(apiserver).status, 'Progressing')).toMatchObject({
      status: 'False',
      reason: 'ReplicaSetCreateError',
      message,
    });
    expect(eventsOf(apiserver)).toEqual([expect.stringMatching(/^Warning ReplicaSetCreateError Failed to create/)]);
  });

  it('gives up in peace when the namespace is being deleted', async () => {
    const apiserver = apiserverWith(webDeployment());
    apiserver.intercept = () => ({ code: 403, causes: [{ reason: 'NamespaceTerminating' }] });
    expect((await run(apiserver)).writes).toMatchObject([createSet]);
  });

  it('takes another hash when its name is somebody else’s, and finds its own that it did not know of', async () => {
    const apiserver = await rolledOut();
    const [own] = setsOf(apiserver);
    const taken = { ...own, metadata: { ...own?.metadata, ownerReferences: [], labels: {} } } as ReplicaSet;
    const other = apiserverWith(webDeployment(), taken);
    expect((await attempt(other)).error).toMatchObject({ reason: 'AlreadyExists' });
    expect(webOf(other).status.collisionCount).toBe(1);
    await run(other);
    expect(new Set(setsOf(other).map(({ metadata }) => metadata.name)).size).toBe(2);

    // The answer to its create was lost, and the cache has not seen it.
    const unseen = apiserverWith(webDeployment());
    unseen.fail(createSet, 'answer-lost');
    expect((await attempt(unseen)).outcome.status).toBe('unknown');
    expect(setsOf(unseen)).toHaveLength(1);
    const { cache } = testContext({ apiserver: unseen, cached: [Deployment] });
    const behind: typeof cache = {
      get: (resource, key) => cache.get(resource, key),
      list: async () => ({ items: [], version: '1' }),
      secondsUnchanged: async () => undefined,
    };
    const { outcome } = await runReconciler(deployment, keyOf(webOf(unseen)), { apiserver: unseen, cache: behind });
    expect(outcome.status).toBe('done');
    expect(setsOf(unseen)).toHaveLength(1);
    expect(webOf(unseen).metadata.annotations?.[REVISION]).toBe('1');
    expect(webOf(unseen).status.collisionCount).toBeUndefined();
  });

  it('takes the revision from a Deployment whose current ReplicaSet can have none, as Kubernetes', async () => {
    const metadata = { annotations: { [REVISION]: '9223372036854775807' } };
    const old = revision(1, 0, metadata);
    const apiserver = apiserverWith(webDeployment({ template: templateOf(2) }, { metadata }), old);
    await rollOut(apiserver);
    expect(setsOf(apiserver)[1]?.metadata.annotations).not.toHaveProperty([REVISION]);
    expect(webOf(apiserver).metadata.annotations).toEqual({ [REVISION]: '' });
    expect((await run(apiserver)).writes).toEqual([]);
  });

  it('leaves annotations while the revision cannot be read, unless minReadySeconds changes too, as Kubernetes', async () => {
    const metadata = { annotations: { team: 'a' } };
    const apiserver = apiserverWith(
      webDeployment({}, { metadata }),
      revision(1, 3, { annotations: { [REVISION]: 'x' } }),
    );
    await run(apiserver);
    expect(setsOf(apiserver)[0]?.metadata.annotations).not.toHaveProperty('team');
    apiserver.put(webDeployment({ minReadySeconds: 5 }, { metadata }));
    await run(apiserver);
    expect(setsOf(apiserver)[0]?.metadata.annotations).toMatchObject({ team: 'a', [REVISION]: 'x' });
  });

  it('counts no collision with a ReplicaSet that is gone when it looks', async () => {
    const apiserver = apiserverWith(webDeployment());
    apiserver.fail(createSet, { code: 409, reason: 'AlreadyExists' });
    expect((await attempt(apiserver)).outcome.status).toBe('error');
    expect(webOf(apiserver).status.collisionCount).toBeUndefined();
  });

  it('stops when admission changes the template of what it makes, says so once, and goes on after that', async () => {
    const apiserver = apiserverWith(webDeployment({}, ofItsOwn()));
    const { direct } = apiserver;
    const changed = (text: string): string => {
      const rs = JSON.parse(text) as ReplicaSet;
      const template = { ...rs.spec.template, spec: { hostname: 'forced' } };
      return JSON.stringify({ ...rs, spec: { ...rs.spec, template } });
    };
    const admission: typeof direct = (request) =>
      request.method === 'POST' && /[/]replicasets([?]|$)/.test(request.path) && request.body !== undefined
        ? direct({ ...request, body: changed(request.body) })
        : direct(request);
    Object.assign(apiserver, { direct: admission });
    for (let runs = 0; runs < 4; runs += 1) {
      await run(apiserver);
      settle(apiserver);
    }
    const [made] = setsOf(apiserver);
    expect(setsOf(apiserver)).toHaveLength(1);
    const message = expect.stringContaining(`"${made?.metadata.name}"`) as unknown;
    const stopped = { status: 'False', reason: 'ReplicaSetTemplateChanged', message };
    expect(conditionOf(webOf(apiserver).status, 'Progressing')).toMatchObject(stopped);
    expect(webOf(apiserver).status).toMatchObject({ replicas: 3, updatedReplicas: 0, readyReplicas: 3 });
    expect(webOf(apiserver).status.collisionCount).toBeUndefined();
    expect(eventsOf(apiserver)).toEqual([expect.stringMatching(/^Warning ReplicaSetTemplateChanged Admission has/)]);
    // Without a new change, it only counts the Event again.
    apiserver.clearRequests();
    await run(apiserver);
    expect(apiserver.writes.filter(({ resource }) => resource !== 'events')).toMatchObject([createSet]);

    Object.assign(apiserver, { direct });
    change(apiserver, { template: templateOf(2) });
    await rollOut(apiserver);
    expect(sizesOf(apiserver)).toEqual([0, 3]);
    expect(reasonOf(apiserver)).toBe('NewReplicaSetAvailable');
  });

  it('does not scale what somebody else has scaled meanwhile, but does when only its status is new', async () => {
    const apiserver = await rolledOut();
    change(apiserver, { replicas: 5 });
    const meanwhile = (act: (rs: ReplicaSet) => ReplicaSet) => {
      apiserver.intercept = ({ verb, resource }) => {
        if (verb === 'patch' && resource === 'replicasets') for (const rs of setsOf(apiserver)) apiserver.put(act(rs));
        return undefined;
      };
    };
    meanwhile((rs) => ({ ...rs, spec: { ...rs.spec, replicas: 4 } }));
    expect((await attempt(apiserver)).error).toMatchObject({ code: 422 });
    expect(sizesOf(apiserver)).toEqual([4]);
    meanwhile((rs) => ({ ...rs, status: { ...rs.status, readyReplicas: 1 } }));
    await run(apiserver);
    expect(sizesOf(apiserver)).toEqual([5]);
  });

  it('copies what is new in annotations and minReadySeconds to the current ReplicaSet', async () => {
    const apiserver = await rolledOut();
    const before = webOf(apiserver);
    const annotations = { ...before.metadata.annotations, 'kubernetes.io/change-cause': 'me' };
    apiserver.put({
      ...before,
      metadata: { ...before.metadata, annotations },
      spec: { ...before.spec, minReadySeconds: 9 },
    });
    const { writes } = await run(apiserver);
    expect(setsOf(apiserver)[0]).toMatchObject({
      metadata: { annotations: { 'kubernetes.io/change-cause': 'me', [REVISION]: '1' } },
      spec: { minReadySeconds: 9 },
    });
    expect(writes).toMatchObject([{ verb: 'patch', resource: 'replicasets' }, statusWrite]);
  });

  it('comes to rest in any history, within the surge all the way, and with enough pods available', async () => {
    const value = fc.oneof(
      fc.nat(4),
      fc.nat(100).map((percent) => `${percent}%`),
    );
    const wish = fc.record({
      template: fc.integer({ min: 1, max: 4 }).map(templateOf),
      strategy: fc.tuple(value, value).map(([maxSurge, maxUnavailable]) => ({
        type: 'RollingUpdate' as const,
        rollingUpdate: { maxSurge, maxUnavailable },
      })),
    });
    const steps = fc.array(fc.tuple(wish, fc.nat(6)), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), steps, async (replicas, wishes) => {
        const apiserver = await rolledOut({ replicas });
        for (const [spec, runs] of wishes) {
          change(apiserver, spec);
          const sum = (of: (rs: ReplicaSet) => number): number =>
            setsOf(apiserver).reduce((total, rs) => total + of(rs), 0);
          for (let count = 0; count < runs; count += 1) {
            const { maxSurge, maxUnavailable } = limitsOf(webOf(apiserver));
            const before = {
              total: sum(({ spec }) => spec.replicas),
              available: sum(({ status }) => status.availableReplicas ?? 0),
            };
            await run(apiserver);
            expect(sum(({ spec }) => spec.replicas)).toBeLessThanOrEqual(Math.max(before.total, replicas + maxSurge));
            const left = sum(({ spec, status }) => Math.min(spec.replicas, status.availableReplicas ?? 0));
            expect(left).toBeGreaterThanOrEqual(Math.min(before.available, replicas - maxUnavailable));
            settle(apiserver);
          }
        }
        await rollOut(apiserver);
        const version = webOf(apiserver).spec.template.metadata?.annotations?.['version'];
        for (const { spec } of setsOf(apiserver)) {
          expect(spec.replicas).toBe(spec.template.metadata?.annotations?.['version'] === version ? replicas : 0);
        }
        expect(reasonOf(apiserver)).toBe('NewReplicaSetAvailable');
      }),
      { numRuns: 60 },
    );
  });
});
