import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Agent, request } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';

import { UserError } from '../../../src/core/index.ts';
import { type ControlPlane, startControlPlane } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';

const parts = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok'] as const;

const kubeconfigSchema = z.object({
  clusters: z.tuple([z.object({ cluster: z.object({ 'certificate-authority-data': z.string() }) })]),
  users: z.tuple([z.object({ user: z.object({ token: z.string() }) })]),
});

interface Client {
  get(path: string): Promise<number>;
  post(path: string, object: object): Promise<number>;
  json(path: string): Promise<unknown>;
  close(): Promise<void>;
}

/** A client that trusts the plane's CA and nothing else, with the token of a kubeconfig unless told otherwise. */
async function clientOf(plane: ControlPlane, kubeconfig: string, authorization?: string): Promise<Client> {
  const { clusters, users } = kubeconfigSchema.parse(parse(await readFile(kubeconfig, 'utf8')));
  const ca = Buffer.from(clusters[0].cluster['certificate-authority-data'], 'base64');
  const dispatcher = new Agent({ connect: { ca } });
  const headers = {
    'content-type': 'application/json',
    authorization: authorization ?? `Bearer ${users[0].user.token}`,
  };
  const status = async (path: string, method: 'GET' | 'POST', body: string | null): Promise<number> => {
    const response = await request(plane.server + path, { dispatcher, headers, method, body });
    await response.body.dump();
    return response.statusCode;
  };
  return {
    get: (path) => status(path, 'GET', null),
    post: (path, object) => status(path, 'POST', JSON.stringify(object)),
    json: async (path) => (await request(plane.server + path, { dispatcher, headers })).body.json(),
    close: () => dispatcher.destroy(),
  };
}

const namespace = (name: string): object => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
const pod = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'image' }] },
});

function exists(pid: number | undefined): boolean {
  return pid !== undefined && existsSync(`/proc/${pid}`);
}

describe('a control plane with kube-controller-manager and simulated nodes', () => {
  let plane: ControlPlane;
  let admin: Client;

  beforeAll(async () => {
    plane = await startControlPlane({
      kubeControllerManager: { controllers: ['*', '-replicaset-controller'] },
      users: [{ name: 'nobody' }],
      kwokNodes: 2,
    });
    admin = await clientOf(plane, plane.kubeconfig);
  }, 600_000);

  afterAll(async () => {
    await admin?.close();
    await plane?.stop();
  });

  it('serves its API on loopback under a certificate of its own CA', async () => {
    expect(plane.server).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect(await admin.post('/api/v1/namespaces', namespace('made-here'))).toBe(201);
    expect(await admin.get('/api/v1/namespaces/made-here')).toBe(200);
  });

  it('has a default ServiceAccount, so that pods are accepted at once', async () => {
    expect(await admin.post('/api/v1/namespaces/default/pods', pod('at-once'))).toBe(201);
  });

  it('answers 401 to a token that it does not know', async () => {
    const stranger = await clientOf(plane, plane.kubeconfig, 'Bearer admin-token');
    expect(await stranger.get('/api/v1/namespaces')).toBe(401);
    await stranger.close();
  });

  // Anonymous requests are let through to RBAC, as in any cluster; it grants them /readyz and little else.
  it('answers 403 without a token', async () => {
    const stranger = await clientOf(plane, plane.kubeconfig, '');
    expect(await stranger.get('/api/v1/namespaces')).toBe(403);
    await stranger.close();
  });

  it('answers 403 to a user without rights', async () => {
    const nobody = await clientOf(plane, plane.kubeconfigFor('nobody'));
    expect(await nobody.get('/api/v1/namespaces')).toBe(403);
    await nobody.close();
  });

  it('keeps kubeconfigs to ourselves and knows its users', async () => {
    expect((await stat(plane.kubeconfig)).mode & 0o777).toBe(0o600);
    expect(() => plane.kubeconfigFor('stranger')).toThrow(UserError);
  });

  it('runs the controllers that were asked for', async () => {
    const log = await readFile(plane.logFile('kube-controller-manager'), 'utf8');
    expect(log).toContain('Starting controller" controller="deployment"');
    expect(log).not.toContain('Starting controller" name="replicaset"');
  });

  it('keeps its data when kube-apiserver or etcd is killed and started again', async () => {
    expect(await admin.post('/api/v1/namespaces', namespace('kept'))).toBe(201);
    for (const part of ['kube-apiserver', 'etcd'] as const) {
      const before = plane.pid(part);
      await plane.kill(part);
      expect(plane.pid(part)).toBeUndefined();
      await Promise.all([plane.start(part), plane.start(part)]);
      expect(plane.pid(part)).not.toBe(before);
      await plane.start('kube-apiserver');
    }
    await eventually(async () => expect(await admin.get('/api/v1/namespaces/kept')).toBe(200));
  });

  it('schedules a pod to a simulated node, and reports it as running', async () => {
    // The apiserver has a connection to etcd for each kind. 409: an attempt was taken, and answered badly.
    await eventually(async () =>
      expect([201, 409]).toContain(await admin.post('/api/v1/namespaces/default/pods', pod('simulated'))),
    );
    const running = {
      spec: { nodeName: expect.stringMatching(/^sim-[01]$/) as unknown },
      status: { phase: 'Running' },
    };
    await eventually(async () =>
      expect(await admin.json('/api/v1/namespaces/default/pods/simulated')).toMatchObject(running),
    );
  });

  it('leaves no process and no directory when it is stopped, twice', async () => {
    const pids = parts.map((part) => plane.pid(part)).filter((pid) => pid !== undefined);
    expect(pids).toHaveLength(parts.length);
    await Promise.all([plane.stop(), plane.stop()]);
    expect(pids.filter(exists)).toEqual([]);
    expect(existsSync(plane.directory)).toBe(false);
    await expect(plane.start('etcd')).rejects.toThrow(UserError);
  });
});

describe('starting a control plane', () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'levelhook-control-plane-test-'));
  });

  afterEach(() => rm(directory, { recursive: true }));

  it('without kube-controller-manager accepts pods all the same, and leaves a directory that was named', async () => {
    const plane = await startControlPlane({ directory: join(directory, 'plane') });
    const admin = await clientOf(plane, plane.kubeconfig);
    expect(await admin.post('/api/v1/namespaces/default/pods', pod('alone'))).toBe(201);
    await admin.close();
    // A part that it never had.
    await expect(plane.start('kwok')).rejects.toThrow(UserError);
    await plane.stop();
    expect(existsSync(plane.kubeconfig)).toBe(true);
  });

  it('stops everything again when a part ends, and says which, with its log', async () => {
    const failed = startControlPlane({ directory, apiserverArguments: ['--no-such-flag'] });
    await expect(failed).rejects.toThrow(UserError);
    await expect(failed).rejects.toThrow(/^kube-apiserver ended; its log .*kube-apiserver\.log ends: .*no-such-flag/);
    expect(JSON.parse(await readFile(join(directory, 'processes.json'), 'utf8'))).toEqual({});
  });

  it('can be aborted, and then leaves nothing', async () => {
    const abort = new AbortController();
    const onProgress = (line: string): void => {
      if (line.startsWith('etcd is ready')) abort.abort(new Error('enough'));
    };
    await expect(startControlPlane({ directory, onProgress, signal: abort.signal })).rejects.toThrow('enough');
    expect(JSON.parse(await readFile(join(directory, 'processes.json'), 'utf8'))).toEqual({});
  });

  it('goes on in its directory where it was stopped, with the same kubeconfig and token', async () => {
    const first = await startControlPlane({ directory });
    const admin = await clientOf(first, first.kubeconfig);
    const before = await readFile(first.kubeconfig, 'utf8');
    expect(await admin.post('/api/v1/namespaces', namespace('kept'))).toBe(201);
    await expect(startControlPlane({ directory })).rejects.toThrow(`is in use by the process ${process.pid}: end it`);
    await first.stop();
    const second = await startControlPlane({ directory });
    try {
      expect(second.kubeconfig).toBe(first.kubeconfig);
      const { users: old } = kubeconfigSchema.parse(parse(before));
      const { users } = kubeconfigSchema.parse(parse(await readFile(second.kubeconfig, 'utf8')));
      expect(users).toEqual(old);
      const again = await clientOf(second, second.kubeconfig);
      expect(await again.get('/api/v1/namespaces/kept')).toBe(200);
      expect(await again.post('/api/v1/namespaces', namespace('new'))).toBe(201);
      await again.close();
    } finally {
      await admin.close();
      await second.stop();
    }
  });

  it('refuses a directory that is not empty, and nodes that nothing would be scheduled to', async () => {
    await writeFile(join(directory, 'mine'), '');
    await expect(startControlPlane({ directory })).rejects.toThrow(/is not empty/);
    await expect(startControlPlane({ kwokNodes: 1, kubeScheduler: false })).rejects.toThrow(UserError);
  });
});
