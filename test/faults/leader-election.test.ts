import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { resource } from '../../src/core/index.ts';
import { Cluster, leases } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Line, TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';

const RBAC = 'rbac.authorization.k8s.io';
/** How often an elector renews its Lease, and looks whether it is free. */
const RETRY_MS = 1000;
/** A Lease of the first length expires within a test, and one of the second does not. */
const SHORT_SECONDS = 4;
const LONG_SECONDS = 120;
/** A machine that is busy renews in time. */
const CALM_SECONDS = 10;

/** Processes that elect one of them by a Lease of their own. */
class Electorate {
  readonly key: { readonly namespace: string; readonly name: string };
  readonly #kubeconfig: string;
  readonly #leaseSeconds: number;
  readonly #started: Started;

  private constructor(namespace: string, kubeconfig: string, leaseSeconds: number, started: Started) {
    this.key = { namespace, name: 'levelhook' };
    this.#kubeconfig = kubeconfig;
    this.#leaseSeconds = leaseSeconds;
    this.#started = started;
  }

  /** With the rights that infra/rbac/gateway.yaml gives, in a namespace of the test's own. */
  static async create(started: Started, cluster: Cluster, leaseSeconds = SHORT_SECONDS): Promise<Electorate> {
    const namespace = uniqueName('elect');
    await cluster.createNamespace(namespace);
    started.add(() => cluster.deleteNamespace(namespace));
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
    const kubeconfig = join(await started.directory(), 'config');
    await writeFile(kubeconfig, stringify(config), { mode: 0o600 });
    const electorate = new Electorate(namespace, kubeconfig, leaseSeconds, started);
    // The apiserver learns of a new Role a moment later.
    const first = await electorate.#start();
    await event(first, 'lead');
    await first.kill('SIGTERM');
    return electorate;
  }

  /** One that leads, and one that has seen it lead. */
  async pair(): Promise<[leader: TestProcess, follower: TestProcess]> {
    const leader = await this.#start();
    await event(leader, 'lead');
    const follower = await this.#start();
    await event(follower, 'follow');
    // Its watch is open and has shown a renewal.
    await sleep(2 * RETRY_MS);
    return [leader, follower];
  }

  async #start(): Promise<TestProcess> {
    const { namespace, name } = this.key;
    const args = [this.#kubeconfig, `${namespace}/${name}`, String(this.#leaseSeconds)];
    const process = new TestProcess('test/harness/elector.ts', args, {});
    this.#started.keep({ process });
    await event(process, 'started');
    return process;
  }
}

/** The first event of this name that happened after `afterMs` on the machine's clock. */
async function event(process: TestProcess, name: string, afterMs = 0): Promise<Line & { ms: number }> {
  const line = await process.line((each) => each['event'] === name && Number(each['ms']) > afterMs);
  return { ...line, ms: Number(line['ms']) };
}

/** No connection and no right was missing. A busy apiserver may be late, and is asked again. */
function expectNoWarning(...processes: readonly TestProcess[]): void {
  const isOne = (each: Line): boolean => each['event'] === 'warning' && !/did not answer/.test(String(each['error']));
  for (const { lines } of processes) expect(lines.filter(isOne)).toEqual([]);
}

/** Each with a Lease of its own and at the same time, since they wait more than they work. */
describe.concurrent('leader election on a real apiserver', () => {
  const started = new Started();
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.connect(inject('kubeconfig'));
    started.add(() => cluster.close());
  });

  afterAll(() => started.stop());

  it('hands the Lease over at SIGTERM', async () => {
    const electorate = await Electorate.create(started, cluster, LONG_SECONDS);
    const [leader, follower] = await electorate.pair();
    const before = await cluster.get(leases, electorate.key);
    const atMs = machineMs();
    expect(await leader.kill('SIGTERM')).toBe(0);
    const took = await event(follower, 'lead');
    const end = await event(leader, 'end');
    process.stdout.write(`SIGTERM: another process led after ${Math.round(took.ms - atMs)} ms\n`);
    expect(end.ms).toBeLessThan(took.ms);
    // Not by its expiry.
    expect(took.ms - atMs).toBeLessThan((LONG_SECONDS * 1000) / 2);
    const after = await cluster.get(leases, electorate.key);
    expect(after?.spec?.leaseTransitions).toBe((before?.spec?.leaseTransitions ?? 0) + 1);
    expectNoWarning(leader, follower);
    await follower.kill('SIGTERM');
    const released = (await cluster.get(leases, electorate.key))?.spec;
    expect(released).toMatchObject({ leaseDurationSeconds: 1, holderIdentity: '' });
  });

  it('is taken after the death of the leader, and not before its time', async () => {
    const leaseSeconds = 10;
    const electorate = await Electorate.create(started, cluster, leaseSeconds);
    const [leader, follower] = await electorate.pair();
    const atMs = machineMs();
    await leader.kill('SIGKILL');
    const { renewTime } = (await cluster.get(leases, electorate.key))?.spec ?? {};
    const renewedMs = Date.parse(String(renewTime)) + machineMs() - Date.now();
    const took = await event(follower, 'lead');
    process.stdout.write(`SIGKILL: another process led after ${Math.round(took.ms - atMs)} ms\n`);
    expect(took.ms).toBeGreaterThan(renewedMs + leaseSeconds * 1000 - 1);
    expectNoWarning(leader, follower);
    await follower.kill('SIGTERM');
  });

  it('a leader that was frozen does not lead when it wakes, and follows', async () => {
    const electorate = await Electorate.create(started, cluster, CALM_SECONDS);
    const [leader, follower] = await electorate.pair();
    leader.send('SIGSTOP');
    const frozenMs = machineMs();
    await event(follower, 'lead', frozenMs);
    leader.send('SIGCONT');
    expect(await event(leader, 'woke', frozenMs)).toMatchObject({ leads: false });
    await event(leader, 'end');
    await event(leader, 'follow', frozenMs);
    // It follows before it leads again. It may lead again while the other lives, which on a busy machine renews too
    // late.
    const woken = leader.lines.filter((each) => Number(each['ms']) > frozenMs).map((each) => each['event']);
    expect(woken.find((each) => each === 'lead' || each === 'follow')).toBe('follow');
    await follower.kill('SIGTERM');
    await event(leader, 'lead', frozenMs);
    await leader.kill('SIGTERM');
  });

  it('a Lease that is deleted is created again by its holder, and no other process leads', async () => {
    const electorate = await Electorate.create(started, cluster, LONG_SECONDS);
    const [leader, follower] = await electorate.pair();
    const identity = (await event(leader, 'started'))['identity'];
    const deletedMs = machineMs();
    await cluster.delete(leases, electorate.key);
    await event(leader, 'lead', deletedMs);
    await eventually(async () => {
      expect(await cluster.get(leases, electorate.key)).toMatchObject({
        spec: { holderIdentity: identity, leaseTransitions: 0 },
      });
    });
    expect(follower.lines.filter((each) => each['event'] === 'lead')).toEqual([]);
    expectNoWarning(leader, follower);
    await Promise.all([leader.kill('SIGTERM'), follower.kill('SIGTERM')]);
  });
});
