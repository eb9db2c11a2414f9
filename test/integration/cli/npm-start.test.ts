import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import { resolveBinary } from '../../../src/testing/index.ts';
import { findOnPath } from '../../../src/testing/process/find-on-path.ts';
import { Cluster, configMaps, pods, replicaSet } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { levelhook, UserCommand } from '../../harness/user-command.ts';

let command: UserCommand;

afterEach(() => command.clean());

/** The README's first command, but for the port: another process may have 8787 on the machine that tests. */
async function npmStart(...args: readonly string[]): Promise<UserCommand> {
  command = new UserCommand('npm', ['start', '--', '--port', '0', ...args]);
  await command.line(/^levelhook ready$/);
  return command;
}

async function printed(name: string): Promise<string> {
  const line = await command.line(new RegExp(`^  ${name} +[^ ]+$`));
  return line.trim().split(/ +/)[1] ?? '';
}

function expectNothingLeft(): void {
  expect(command.running()).toEqual([]);
  expect(command.leftFiles()).toEqual([]);
}

it('npm start brings up the whole line, shows it, and stops it in order at SIGTERM to npm', async () => {
  await npmStart();
  expect(command.running().length).toBeGreaterThan(6);

  const cluster = await Cluster.connect(await printed('kubeconfig'));
  await eventually(async () => {
    expect((await cluster.list(pods, 'default', 'app=hello')).items).toHaveLength(3);
  });
  await cluster.close();
  await command.line(
    /^\d\d:\d\d:\d\d\.\d{3} replicaset +default\/hello +added ReplicaSet hello.* \d+ ms +done, \d+ writes$/,
  );

  const [program = '', ...args] = (await command.line(/^ +npm run -s levelhook explain /)).trim().split(' ');
  const explain = new UserCommand(program, args);
  expect(await explain.exited, explain.output).toBe(0);
  expect(explain.output).toContain('default/hello');
  await explain.clean();

  const dashboard = await fetch(await printed('dashboard'));
  expect(dashboard.status).toBe(200);
  expect(await dashboard.text()).toMatch(/<title>.*levelhook<\/title>/);
  const health = await fetch(await printed('health'));
  expect(health.status).toBe(200);
  expect((await health.text()).trim().split('\n')).toEqual([
    '[+]redis ok',
    '[+]redis-server ok',
    '[+]informers ok',
    '[+]functions ok',
    '[+]progress ok',
    '[+]controllers ok',
    '[+]reconcilefunctions ok',
    '[+]certificates ok',
    '[+]leader ok',
  ]);
  const metrics = await fetch(await printed('metrics'));
  expect(await metrics.text()).toContain('controller_runtime_reconcile_total{');

  command.signal('SIGTERM');
  expect(await command.exited, command.output).toBe(0);
  expect(command.stderr.filter((line) => line.startsWith('stopping '))).toEqual([
    'stopping the gateway',
    'stopping function replicaset',
    'stopping the control plane',
    'stopping Redis',
  ]);
  expectNothingLeft();
});

it('npm start with several functions runs the control plane without all that they replace', async () => {
  await npmStart('--functions', 'deployment,replicaset', '--no-sample');
  const manager = command.running().find((each) => each.command.includes('kube-controller-manager '));
  expect(manager?.command).toContain('--controllers=*,-deployment-controller,-replicaset-controller ');
  const cluster = await Cluster.connect(await printed('kubeconfig'));
  const { metadata, spec } = replicaSet({ namespace: 'default', name: 'web' }, 2);
  await cluster.create(resource('apps/v1', 'Deployment'), { metadata, spec });
  await eventually(async () => expect((await cluster.list(pods, 'default', 'app=web')).items).toHaveLength(2));
  await cluster.close();
  await command.line(/ deployment +default\/web +.* done, [1-9]\d* writes?\b/);
  command.signal('SIGTERM');
  expect(await command.exited, command.output).toBe(0);
  expectNothingLeft();
});

it('npm start runs a function of a custom resource, whose definition it applies', async () => {
  await npmStart('--functions', 'examples/02-custom-resource', '--no-sample');
  const kubeconfig = await printed('kubeconfig');
  const cluster = await Cluster.connect(kubeconfig);
  const site = resource('example.com/v1', 'Site');
  await cluster.create(site, { metadata: { namespace: 'default', name: 'home' }, spec: { pages: { a: 'A' } } });
  await command.line(/ site +default\/home /);
  expect(command.stdout.join('\n')).not.toContain('explain replicaset');
  await cluster.close();
  command.signal('SIGTERM');
  expect(await command.exited, command.output).toBe(0);
  expectNothingLeft();
});

it('levelhook start without Go starts without the programs that it cannot get, and says what is missing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'levelhook-no-go-'));
  for (const name of ['etcd', 'kube-apiserver', 'kubectl'] as const) {
    symlinkSync(await resolveBinary(name), join(folder, name));
  }
  symlinkSync(findOnPath(['redis-server', 'valkey-server'], process.env['PATH']) ?? '', join(folder, 'redis-server'));
  command = levelhook(['start', '--functions', 'examples/01-minimal', '--no-sample', '--port', '0'], {
    PATH: folder,
    LEVELHOOK_ASSETS: folder,
    LEVELHOOK_KUBERNETES_DOWNLOADS: '',
  });
  await command.line(/^levelhook ready$/);
  expect(command.stderr[0]).toMatch(
    /^kube-controller-manager is not on this machine and neither is Go .* Without it nothing deletes the children of an owner, and there are no ServiceAccounts\.$/,
  );
  const cluster = await Cluster.connect(await printed('kubeconfig'));
  const metadata = { namespace: 'default', name: 'ann', labels: { greet: 'true' } };
  await cluster.create(configMaps, { metadata, data: { name: 'Ann' } });
  await command.line(/ greeting +default\/ann .* done, 1 write$/);
  await cluster.close();
  command.signal('SIGTERM');
  expect(await command.exited, command.output).toBe(0);
  expectNothingLeft();
  rmSync(folder, { recursive: true });
});

it('Ctrl-C ends npm start, with nothing left behind', async () => {
  await npmStart();
  command.signal('SIGINT', 'group');
  expect(await command.exited, command.output).toBe(0);
  expectNothingLeft();
});

it('Ctrl-C while the control plane is coming up stops what is there', async () => {
  command = new UserCommand('npm', ['start', '--', '--port', '0']);
  await eventually(async () => expect(command.stderr.join('\n')).toContain('etcd is ready'));
  command.signal('SIGINT', 'group');
  expect(await command.exited, command.output).toBe(0);
  expectNothingLeft();
});
