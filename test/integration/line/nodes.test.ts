import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Node, Pod } from '../../../src/function/kinds/index.ts';
import { isWrite } from '../../harness/audit-log.ts';
import { eventually } from '../../harness/eventually.ts';
import { Fleet } from '../../harness/fleet.ts';
import { userOf } from '../../harness/identity.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { WorkloadPlane } from '../../harness/workload-plane.ts';

/** Nodes report each second. A machine that stands still for less loses none. */
const GRACE_SECONDS = 12;
const LOST = 'Unknown unreachable:NoExecute unreachable:NoSchedule';
const LIMIT_MS = 60_000;

describe('the nodes function behind a gateway', () => {
  const started = new Started();
  const namespace = uniqueName('nodes');
  const stopped = new AbortController();
  let beating: Promise<void> | undefined;
  let workloads: WorkloadPlane;
  let fleet: Fleet;

  /** What the functions have written, beside Events. */
  async function writes(): Promise<string[]> {
    const requests = await workloads.audit.requests();
    return requests
      .filter((each) => each.user === userOf('node-lifecycle') && isWrite(each) && each.resource !== 'events')
      .map(({ verb, resource, code }) => `${verb} ${resource} ${code}`);
  }

  async function untilNodes(nodes: Readonly<Record<string, number>>): Promise<void> {
    await eventually(async () => expect((await fleet.state()).nodes).toEqual(nodes), LIMIT_MS);
  }

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, {
      functions: ['node-lifecycle'],
      nodes: 0,
      functionVariables: { NODE_MONITOR_GRACE_SECONDS: String(GRACE_SECONDS), NODE_EVICTION_RATE: '10' },
    });
    await workloads.cluster.createNamespace(namespace);
    // Longer than a busy machine takes from the first silent node of a zone to the last: until then its pods may go.
    fleet = new Fleet(workloads.cluster, { zones: { a: 3, b: 4 }, podsPerNode: 2, tolerationSeconds: 10, namespace });
    await fleet.create();
    beating = fleet.beatUntil(stopped.signal, 1000);
    await workloads.startLine();
    await untilNodes({ True: 7 });
  });

  afterAll(async () => {
    stopped.abort();
    await beating;
    await started.stop();
  });

  it('leaves nodes alone whose Leases are renewed, though their status is old', async () => {
    await sleep((GRACE_SECONDS + 3) * 1000);
    expect((await fleet.state()).nodes).toEqual({ True: 7 });
  });

  it(
    'leaves them alone after the gateway was away for longer than the grace period',
    { timeout: LIMIT_MS },
    async () => {
      const before = (await writes()).length;
      await workloads.gateway.process.kill('SIGKILL');
      await sleep((GRACE_SECONDS + 3) * 1000);
      await workloads.startGateway();
      await untilReady(workloads.gateway.url);
      await sleep(3000);
      expect((await writes()).slice(before)).toEqual([]);
    },
  );

  it('taints the nodes of a silent zone and evicts their pods', { timeout: 2 * LIMIT_MS }, async () => {
    await fleet.silence('a');
    await untilNodes({ True: 4, [LOST]: 3 });
    await eventually(async () => {
      expect((await fleet.state()).pods).toEqual({ True: 8, 'False deleted target': 6 });
    }, LIMIT_MS);
  });

  it(
    'removes the NoExecute taints, and evicts nothing, when all zones are silent',
    { timeout: 2 * LIMIT_MS },
    async () => {
      await fleet.silence('b');
      await untilNodes({ 'Unknown unreachable:NoSchedule': 7 });
      const expected = { False: 8, 'False deleted target': 6 };
      // The pods of a node follow its taint.
      await eventually(async () => expect((await fleet.state()).pods).toEqual(expected), LIMIT_MS);
    },
  );

  it('takes back all taints when the nodes report again', { timeout: 2 * LIMIT_MS }, async () => {
    await fleet.revive();
    await untilNodes({ True: 7 });
  });

  it('evicts a pod in its time while another taint of its node comes and goes', { timeout: 2 * LIMIT_MS }, async () => {
    const { cluster } = workloads;
    const key = { namespace, name: 'waits' };
    await cluster.create(Pod, {
      metadata: { ...key, finalizers: ['example.com/held'] },
      spec: {
        nodeName: 'b-0',
        containers: [{ name: 'main', image: 'none' }],
        tolerations: [
          { key: 'only', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 4 },
          { key: 'flap', operator: 'Exists' },
        ],
      },
    });
    // As kubectl writes it: without a time.
    const only = { key: 'only', effect: 'NoExecute' };
    const flap = { key: 'flap', effect: 'NoExecute' };
    let isThere = false;
    await eventually(
      async () => {
        isThere = !isThere;
        await cluster.patch(Node, { name: 'b-0' }, { spec: { taints: isThere ? [only, flap] : [only] } });
        expect((await cluster.get(Pod, key))?.metadata.deletionTimestamp).toBeDefined();
      },
      LIMIT_MS,
      500,
    );
    await cluster.patch(Pod, key, { metadata: { finalizers: null } });
  });

  it('writes with the rights of its account, and no request is refused', async () => {
    const requests = await workloads.audit.requests();
    expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
    expect(new Set((await writes()).map((each) => each.replace(/ \d+$/, '')))).toEqual(
      new Set(['update nodes/status', 'patch nodes', 'patch pods/status', 'delete pods']),
    );
  });
});
