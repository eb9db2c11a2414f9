import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../../src/testing/index.ts';
import { Cluster, configMaps, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { levelhook, UserCommand } from '../../harness/user-command.ts';

/** Not the control plane that tests share: the replicaset function works on every ReplicaSet that it sees. */
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
  command = levelhook(['start', '--functions', 'examples/01-minimal', '--port', '0'], {
    KUBECONFIG: plane.kubeconfig,
    REDIS_URL: inject('redisUrl'),
    LEVELHOOK_KEY_PREFIX: `cli-${process.pid}`,
    // What the gateway says at info is not shown, so this must not matter.
    LEVELHOOK_LOG_LEVEL: 'error',
  });
  await command.line(/^levelhook ready$/);
  const labels = { greet: 'true' };
  await cluster.create(configMaps, { metadata: { namespace: 'default', name: 'ann', labels }, data: { name: 'Ann' } });
  await command.line(/ greeting +default\/ann +added ConfigMap ann .* done, 1 write$/);
  expect(await cluster.get(replicaSets, { namespace: 'default', name: 'hello' })).toBeUndefined();
  command.signal('SIGINT', 'group');
  await expectOrderedEnd();
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
    process.kill(victim?.pid ?? 0, 'SIGKILL');
    expect(await command.exited).toBe(1);
    expect(command.stderr.at(-1)).toBe(`levelhook: ${sentence}`);
    expect(command.running()).toEqual([]);
    expect(command.leftFiles()).toEqual([]);
  });
});
