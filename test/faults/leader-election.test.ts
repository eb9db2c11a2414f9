import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type KubernetesObject, resource } from '../../src/core/index.ts';
import type { LeaseSpec } from '../../src/gateway/manager/lease.ts';
import type { Cluster } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Line, TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';

const leases = resource<KubernetesObject & { spec?: LeaseSpec }>('coordination.k8s.io/v1', 'Lease');
const RBAC = 'rbac.authorization.k8s.io';
/** The times of `elector.ts`. */
const LEASE_MS = 4000;
const RETRY_MS = 1000;

/** With the rights that infra/rbac/gateway.yaml gives, in a namespace of the test's own. */
describe('leader election on a real apiserver', () => {
  const started = new Started();
  const namespace = uniqueName('elect');
  const key = { namespace, name: 'levelhook' };
  let cluster: Cluster;
  let kubeconfig: string;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const role = parseAllDocuments(await readFile('infra/rbac/gateway.yaml', 'utf8'))
      .map((document) => document.toJS() as { kind: string; metadata: { namespace?: string }; rules: unknown })
      .find(({ kind, metadata }) => kind === 'Role' && metadata.namespace === 'levelhook');
    const metadata = { namespace, name: 'gateway' };
    await cluster.create(resource(`${RBAC}/v1`, 'Role'), { metadata, rules: role?.rules });
    await cluster.create(resource(`${RBAC}/v1`, 'RoleBinding'), {
      metadata,
      roleRef: { apiGroup: RBAC, kind: 'Role', name: 'gateway' },
      subjects: [{ kind: 'ServiceAccount', namespace, name: 'gateway' }],
    });
    const config = parse(await readFile(inject('kubeconfig'), 'utf8')) as { users: { user: object }[] };
    for (const { user } of config.users) Object.assign(user, { as: `system:serviceaccount:${namespace}:gateway` });
    kubeconfig = join(await started.directory(), 'config');
    await writeFile(kubeconfig, stringify(config), { mode: 0o600 });
    // The apiserver learns of a new Role a moment later.
    const first = await start();
    await event(first, 'lead');
    await first.kill('SIGTERM');
  });

  afterAll(() => started.stop());

  async function start(): Promise<TestProcess> {
    const process = new TestProcess('test/harness/elector.ts', [kubeconfig, `${namespace}/levelhook`], {});
    started.keep({ process });
    await event(process, 'started');
    return process;
  }

  /** The first event of this name that happened after `afterMs` on the machine's clock. */
  async function event(process: TestProcess, name: string, afterMs = 0): Promise<Line & { ms: number }> {
    const line = await process.line((each) => each['event'] === name && Number(each['ms']) > afterMs);
    return { ...line, ms: Number(line['ms']) };
  }

  /** One that leads, and one that has seen it lead. */
  async function pair(): Promise<[leader: TestProcess, follower: TestProcess]> {
    const leader = await start();
    await event(leader, 'lead');
    const follower = await start();
    await event(follower, 'follow');
    // Its watch is open and has shown a renewal.
    await sleep(2 * RETRY_MS);
    return [leader, follower];
  }

  /** No connection, right or answer was missing, unless the test says so. */
  function expectNoWarning(...processes: readonly TestProcess[]): void {
    for (const { lines } of processes) expect(lines.filter((each) => each['event'] === 'warning')).toEqual([]);
  }

  it('hands the Lease over at SIGTERM', async () => {
    const [leader, follower] = await pair();
    const before = await cluster.get(leases, key);
    const atMs = machineMs();
    expect(await leader.kill('SIGTERM')).toBe(0);
    const took = await event(follower, 'lead');
    const end = await event(leader, 'end');
    process.stdout.write(`SIGTERM: another process led after ${Math.round(took.ms - atMs)} ms\n`);
    expect(end.ms).toBeLessThan(took.ms);
    // Not by its expiry.
    expect(took.ms - atMs).toBeLessThan(LEASE_MS - RETRY_MS);
    const after = await cluster.get(leases, key);
    expect(after?.spec?.leaseTransitions).toBe((before?.spec?.leaseTransitions ?? 0) + 1);
    expectNoWarning(leader, follower);
    await follower.kill('SIGTERM');
    const released = (await cluster.get(leases, key))?.spec;
    expect(released).toMatchObject({ leaseDurationSeconds: 1, holderIdentity: '' });
  });

  it('is taken after the death of the leader, and not before its time', async () => {
    const [leader, follower] = await pair();
    const atMs = machineMs();
    await leader.kill('SIGKILL');
    const took = await event(follower, 'lead');
    process.stdout.write(`SIGKILL: another process led after ${Math.round(took.ms - atMs)} ms\n`);
    // The last renewal was at most a retry period and a slow request before.
    expect(took.ms - atMs).toBeGreaterThan(LEASE_MS - 2 * RETRY_MS);
    expectNoWarning(leader, follower);
    await follower.kill('SIGTERM');
  });

  it('a leader that was frozen does not lead when it wakes, and follows', async () => {
    const [leader, follower] = await pair();
    leader.send('SIGSTOP');
    const frozenMs = machineMs();
    await event(follower, 'lead');
    leader.send('SIGCONT');
    expect(await event(leader, 'woke', frozenMs)).toMatchObject({ leads: false });
    await event(leader, 'end');
    await event(leader, 'follow', frozenMs);
    expect(leader.lines.filter((each) => each['event'] === 'lead')).toHaveLength(1);
    await follower.kill('SIGTERM');
    await event(leader, 'lead', frozenMs);
    await leader.kill('SIGTERM');
  });

  it('a Lease that is deleted is created again by its holder, and no other process leads', async () => {
    const [leader, follower] = await pair();
    const identity = (await event(leader, 'started'))['identity'];
    const deletedMs = machineMs();
    await cluster.delete(leases, key);
    await event(leader, 'lead', deletedMs);
    await eventually(async () => {
      expect(await cluster.get(leases, key)).toMatchObject({ spec: { holderIdentity: identity, leaseTransitions: 0 } });
    });
    expect(follower.lines.filter((each) => each['event'] === 'lead')).toEqual([]);
    expectNoWarning(leader, follower);
    await Promise.all([leader.kill('SIGTERM'), follower.kill('SIGTERM')]);
  });
});
