import { resolve } from 'node:path';
import { applyDefinitions, definitionsOf } from '../../../src/cli/definitions.ts';
import { resource, systemClock } from '../../../src/core/index.ts';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../../src/testing/index.ts';
import { Cluster, configMaps, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { levelhook, UserCommand } from '../../harness/user-command.ts';

/** Not the control plane that tests share: the replicaset function works on every ReplicaSet that it sees. */
const leases = resource('coordination.k8s.io/v1', 'Lease');
const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');

let plane: ControlPlane;
let cluster: Cluster;
let command: UserCommand;

beforeAll(async () => {
  plane = await startControlPlane();
  cluster = await Cluster.connect(plane.kubeconfig);
});

afterAll(async () => {
  await cluster.close();
  await plane.stop();
});

afterEach(() => command.clean());

async function expectOrderedEnd(): Promise<void> {
  expect(await command.exited, command.output).toBe(0);
  expect(command.running()).toEqual([]);
  expect(command.leftFiles()).toEqual([]);
}

it('the form for scripts never asks, not even with a closed stdin, and creates no sample', async () => {
  const script = 'exec npm start -- --kubeconfig "$1" --functions replicaset --no-sample --port 0 <&-';
  command = new UserCommand('sh', ['-c', script, 'sh', plane.kubeconfig]);
  await command.line(/^levelhook ready$/);
  expect(command.output).not.toContain('[y/N]');
  await cluster.create(replicaSets, replicaSet({ namespace: 'default', name: 'web' }, 2));
  await eventually(async () => expect((await cluster.list(pods, 'default')).items).toHaveLength(2));
  expect((await cluster.list(replicaSets)).items.map(({ metadata }) => metadata.name)).toEqual(['web']);
  command.signal('SIGTERM');
  await expectOrderedEnd();
});

it('without --no-sample and without a terminal it does not ask either, and creates none', async () => {
  const flags = ['--functions', 'examples/01-minimal', '--kubeconfig', plane.kubeconfig, '--port', '0'];
  command = levelhook(['start', ...flags], {
    REDIS_URL: inject('redisUrl'),
    LEVELHOOK_KEY_PREFIX: `cli-${process.pid}`,
    // What the gateway says at info is not shown, so this must not matter.
    LEVELHOOK_LOG_LEVEL: 'error',
  });
  await command.line(/^levelhook ready$/);
  expect(command.stderr[0]).toMatch(/^cluster: the context \S+ at https:\S+$/);
  expect(command.stderr[1]).toBe('functions: examples/01-minimal');
  expect(command.stderr[2]).toMatch(/^Redis: redis:\S+, as REDIS_URL says$/);
  expect(command.stderr[3]).toMatch(/^the ReconcileFunctions of the cluster are not run: /);
  const labels = { greet: 'true' };
  await cluster.create(configMaps, { metadata: { namespace: 'default', name: 'ann', labels }, data: { name: 'Ann' } });
  await command.line(/ greeting +default\/ann .* done, 1 write$/);
  expect(await cluster.get(replicaSets, { namespace: 'default', name: 'hello' })).toBeUndefined();
  command.signal('SIGINT', 'group');
  await expectOrderedEnd();
  expect(command.stderr).not.toContain('stopping Redis');
});

describe('a cluster', () => {
  it('that only KUBECONFIG names is not used', async () => {
    command = levelhook(['start', '--functions', 'replicaset', '--port', '0'], { KUBECONFIG: plane.kubeconfig });
    const line = await command.line(/^ {2}kubeconfig +\S+$/);
    expect(line).not.toContain(plane.kubeconfig);
    expect(command.stderr[0]).toMatch(/^KUBECONFIG is not used: --kubeconfig FILE or --context NAME /);
    command.signal('SIGTERM');
    await expectOrderedEnd();
  });

  it('that runs the built-in controller is refused, unless the user says that it is off', async () => {
    const metadata = { namespace: 'kube-system', name: 'kube-controller-manager' };
    const spec = { holderIdentity: 'someone', leaseDurationSeconds: 15, renewTime: microTime(systemClock.now()) };
    await cluster.create(leases, { metadata, spec });
    const flags = ['--kubeconfig', plane.kubeconfig, '--functions', 'replicaset', '--no-sample', '--port', '0'];
    command = levelhook(['start', ...flags]);
    expect(await command.exited, command.output).toBe(1);
    expect(command.stderr.at(-1)).toMatch(
      /has a kube-controller-manager, whose replicaset-controller would work on the same objects\. .*--built-in-off\.$/,
    );
    await command.clean();
    command = levelhook(['start', ...flags, '--built-in-off']);
    await command.line(/^levelhook ready$/);
    command.signal('SIGTERM');
    await expectOrderedEnd();
    await command.clean();
    // One that stopped renewing it long ago is gone.
    await cluster.patch(leases, metadata, { spec: { renewTime: microTime(systemClock.now() - 3_600_000) } });
    command = levelhook(['start', ...flags]);
    await command.line(/^levelhook ready$/);
    command.signal('SIGTERM');
    await expectOrderedEnd();
  });

  it('is named by a context, and by one that there is', async () => {
    const flags = ['--functions', 'examples/01-minimal', '--port', '0'];
    const env = { KUBECONFIG: plane.kubeconfig };
    command = levelhook(['start', ...flags, '--context', 'nowhere'], env);
    expect(await command.exited, command.output).toBe(1);
    const [, context = ''] = /has no context "nowhere": there is ([^,.]+)/.exec(command.stderr.at(-1) ?? '') ?? [];
    await command.clean();
    command = levelhook(['start', ...flags, '--context', context], env);
    await command.line(/^levelhook ready$/);
    expect(command.stderr[0]).toContain(`cluster: the context ${context} at https:`);
    command.signal('SIGTERM');
    await expectOrderedEnd();
  });

  it('that lacks the kind of a function is shown with its addresses, and what is waited for', async () => {
    const flags = ['--functions', 'examples/02-custom-resource', '--kubeconfig', plane.kubeconfig, '--port', '0'];
    command = levelhook(['start', ...flags]);
    await command.line(/^ {2}dashboard +\S+$/);
    await eventually(async () =>
      expect(command.stderr.join('\n')).toMatch(
        /^waiting: .*function examples\/02-custom-resource: .*example\.com\/v1\/Site/m,
      ),
    );
    await applyDefinitions(plane.kubeconfig, definitionsOf(resolve('functions/examples/02-custom-resource')));
    await command.line(/^levelhook ready$/);
    command.signal('SIGTERM');
    await expectOrderedEnd();
  });
});

describe('when a process of it ends by itself', () => {
  it.each([
    ['functions/examples/01-minimal', 'function examples/01-minimal ended (SIGKILL).'],
    ['levelhook.js gateway', 'the gateway ended (SIGKILL).'],
  ])('%s: it stops the others and says so', async (which, sentence) => {
    const args = ['--kubeconfig', plane.kubeconfig, '--functions', 'examples/01-minimal', '--port', '0'];
    command = levelhook(['start', ...args]);
    await command.line(/^levelhook ready$/);
    const victim = command.running().find((each) => each.command.includes(which));
    if (!victim) throw new Error(command.output);
    process.kill(victim.pid, 'SIGKILL');
    expect(await command.exited).toBe(1);
    expect(command.stderr.at(-1)).toBe(`levelhook: ${sentence}`);
    expect(command.running()).toEqual([]);
    expect(command.leftFiles()).toEqual([]);
  });
});
