import { createServer } from 'node:https';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import { ApiWriter } from '../../../src/function/index.ts';
import { kubeConfigTransport } from '../../../src/function/node/index.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { type Cluster, configMaps, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('writer');
const webhooks = resource('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', { namespaced: false });
const transport = kubeConfigTransport(inject('kubeconfig'));
const started = new Started();
let cluster: Cluster;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
});

afterAll(() => started.stop());

function writer(remainingMs: number, signal = new AbortController().signal): ApiWriter {
  return new ApiWriter(transport, { signal, deadlineMs: Date.now() + remainingMs });
}

describe('an ApiWriter on a real apiserver', () => {
  it('records every write as the apiserver has it, whatever the kind of write', async () => {
    const api = writer(30_000);
    const key = { namespace, name: 'web' };
    const created = await api.create(replicaSets, replicaSet(key, 0));
    const replaced = await api.replace(replicaSets, { ...created, spec: { ...created.spec, replicas: 0 } });
    const labels = { metadata: { labels: { a: 'b' } } };
    await api.patch(replicaSets, key, { type: 'merge', body: labels });
    const current = await api.patch(replicaSets, key, {
      type: 'strategic',
      body: { metadata: { labels: { c: 'd' } } },
    });
    const status = { replicas: 0, observedGeneration: 99 };
    await api.replace(replicaSets, { ...current, status }, 'status');
    const json = [{ op: 'add', path: '/metadata/labels/e', value: 'f' }];
    await api.patch(replicaSets, key, { type: 'json', body: json });
    const applied = { metadata: { ...key, labels: { g: 'h' } } };
    const last = await api.apply(replicaSets, applied, { fieldManager: 'test', force: true });
    expect(api.writes).toHaveLength(7);
    const { uid } = created.metadata;
    expect(new Set(api.writes.map((write) => write.uid))).toEqual(new Set([uid]));
    expect(api.writes[1]?.resourceVersion).toBe(replaced.metadata.resourceVersion);
    const stored = await cluster.get(replicaSets, key);
    expect(api.writes.at(-1)?.resourceVersion).toBe(last.metadata.resourceVersion);
    expect(stored?.metadata.labels).toMatchObject({ a: 'b', c: 'd', e: 'f', g: 'h' });

    await api.delete(replicaSets, key, { preconditions: { uid }, propagationPolicy: 'Background' });
    const gone = { deleted: true, gone: true };
    expect(api.writes.at(-1)).toEqual({ apiVersion: 'apps/v1', kind: 'ReplicaSet', ...key, uid, ...gone });
    await expect(api.delete(replicaSets, key)).rejects.toMatchObject({ code: 404 });
    expect(api.writes).toHaveLength(8);
    expect(api.unanswered).toEqual([]);
  });
});

/** An admission webhook delays each create until the test lets go: the longest way that a write can take. */
describe('a write that is still under way at the deadline', () => {
  let delayed: (() => void)[] = [];

  beforeAll(async () => {
    const directory = await started.directory();
    const ca = await createCertificates(join(directory, 'pki'));
    const pem = (name: string) => readFile(join(directory, 'pki', name));
    const pair = { cert: await pem('serving.crt'), key: await pem('serving.key') };
    const server = createServer(pair, (request, response) => {
      void (async () => {
        const { request: review } = JSON.parse(await text(request)) as { request: { uid: string } };
        const answer = { uid: review.uid, allowed: true };
        const body = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: answer };
        delayed.push(() => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)));
      })();
    });
    const { url } = await started.open(new LoopbackServer(server));
    const name = uniqueName('delay');
    await cluster.create(webhooks, {
      metadata: { name },
      webhooks: [
        {
          name: 'delay.levelhook.dev',
          clientConfig: {
            url,
            caBundle: Buffer.from(ca).toString('base64'),
          },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
          sideEffects: 'None',
          admissionReviewVersions: ['v1'],
          timeoutSeconds: 30,
          failurePolicy: 'Fail',
        },
      ],
    });
    started.add(() => cluster.delete(webhooks, { name }));
    // The apiserver learns of the webhook by a watch of its own.
    await eventually(async () => {
      const create = writer(1000).create(configMaps, { metadata: { namespace, generateName: 'probe-' } });
      await expect(create).rejects.toThrow();
      expect(delayed.length).toBeGreaterThan(0);
    });
    delayed = [];
  });

  const release = (): void => {
    for (const answer of delayed) answer();
  };
  const untilDelayed = () => eventually(async () => expect(delayed).toHaveLength(1), 60_000, 10);

  it('is given up by the apiserver itself, though nobody hangs up, and may have been done for all we know', async () => {
    const api = writer(1500);
    const created = api.create(configMaps, { metadata: { namespace, name: 'late' } });
    // With 504, or by closing the connection.
    await expect(created).rejects.toThrow();
    release();
    await sleep(1000);
    expect(await cluster.get(configMaps, { namespace, name: 'late' })).toBeUndefined();
    expect(api.writes).toEqual([]);
    expect(api.unanswered).toHaveLength(1);
    delayed = [];
  });

  it('would be done without that', async () => {
    const api = writer(60_000);
    const created = api.create(configMaps, { metadata: { namespace, name: 'in-time' } });
    await untilDelayed();
    await sleep(1500);
    release();
    expect((await created).metadata.name).toBe('in-time');
    expect(api.writes).toHaveLength(1);
    delayed = [];
  });

  it('may still be done after a hang-up, until the deadline, and is on record as such', async () => {
    const hangUp = new AbortController();
    const api = writer(60_000, hangUp.signal);
    const created = api.create(configMaps, { metadata: { namespace, name: 'dropped' } });
    await untilDelayed();
    hangUp.abort();
    await expect(created).rejects.toThrow();
    expect(api.writes).toEqual([]);
    expect(api.unanswered).toHaveLength(1);
    // Seen: the apiserver goes on with it. That is why the gateway waits for the deadline, and not for the hang-up.
    release();
    delayed = [];
  });
});
