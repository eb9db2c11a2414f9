import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { resource } from '../../src/core/index.ts';
import { Cluster } from '../harness/cluster.ts';
import { CreatedProjects, npm, npmInstall } from '../harness/created-project.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { UserCommand } from '../harness/user-command.ts';

/**
 * The machine's part of the guide's ten minutes (infra/docs/guide/ten-minutes.md): seconds of each step, with the
 * packages of this tree and with what was downloaded before. `npm run bench ten-minutes`.
 */
const site = resource('example.com/v1', 'Site');
const steps: { step: string; s: number }[] = [];

async function step(name: string, work: () => unknown): Promise<void> {
  const fromMs = machineMs();
  await work();
  steps.push({ step: name, s: Math.round((machineMs() - fromMs) / 100) / 10 });
}

const projects = new CreatedProjects();
let dev: UserCommand | undefined;
try {
  let folder = '';
  await step('npm create levelhook', async () => ({ folder } = await projects.write('site')));
  await step('npm install', () => npmInstall(folder));
  await step('npm test', () => npm(folder, 'test'));
  await step('npm run dev, until it is ready', async () => {
    dev = new UserCommand('npm', ['run', 'dev', '--', '--port', '0'], { cwd: folder, keys: true });
    await dev.line(/^levelhook ready$/);
  });
  const command = dev as unknown as UserCommand;
  await step('from the first object to the end of its run', async () => {
    const cluster = await Cluster.connect(join(folder, '.levelhook/control-plane/kubeconfig'));
    await cluster.create(site, { metadata: { namespace: 'default', name: 'hello' }, spec: { text: 'Hello. ' } });
    await command.line(/ done, \d writes$/);
    await cluster.close();
  });
  await step('from an edit to the new version', async () => {
    const file = join(folder, 'src/site.ts');
    writeFileSync(file, readFileSync(file, 'utf8').replace("'created'", "'made'"));
    while (!command.stderr.join('\n').includes('src/node.ts started again')) await sleep(20);
  });
  await step('npm run crds', () => npm(folder, 'run', 'crds'));
  await step('the end of dev', async () => {
    command.press('q');
    await command.exited;
  });
  await step('npm run test:cluster', () => npm(folder, 'run', 'test:cluster'));
  console.table([...steps, { step: 'all', s: Math.round(steps.reduce((sum, { s }) => sum + s, 0) * 10) / 10 }]);
} finally {
  await dev?.clean();
  projects.clean();
}
