import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import { copies } from '../../functions/examples/20-platforms/copies.ts';
import { generateSecret } from '../../src/contract/index.ts';
import { npmTools } from '../harness/npm-tools.ts';
import { Started } from '../harness/started.ts';
import { describePlatform } from '../harness/platforms/platform-contract.ts';
import { PlatformProject } from '../harness/platforms/platform-project.ts';
import { type Account, PLATFORMS } from '../harness/platforms/platforms.ts';

/** What a Worker may have on the free plan is 3 MB compressed; its start is mostly parsing. */
const WORKER_LIMIT = 60 * 1024;

const started = new Started();
const secret = generateSecret();
let project: PlatformProject;
let templates: PlatformProject;
let reviews: PlatformProject;
let account: Account;

/** npm installs the runtimes at the first time, from a registry that may be slow. */
beforeAll(() => npmTools(), 600_000);

beforeAll(async () => {
  project = new PlatformProject(await started.directory());
  templates = project.with(await started.directory(), 'test/harness/platforms/templates.ts');
  reviews = project.with(await started.directory(), 'test/harness/platforms/reviews.ts');
  account = await accountOf(inject('kubeconfig'), await started.directory());
}, 300_000);

afterAll(() => started.stop());

it('the bundle of a Worker is under 60 KB', async () => {
  const [worker, lambda] = [await project.bundleForWorkers(), await project.bundleForLambda()];
  process.stdout.write(
    `minified: ${[worker, lambda].map(({ bytes }) => `${(bytes / 1024).toFixed(1)} KB`).join(' for Workers, ')} for Lambda\n`,
  );
  expect(worker.bytes).toBeLessThan(WORKER_LIMIT);
});

it('the time limits of the platforms are above that of a run, and they run as many at a time as the controller', () => {
  const { timeoutSeconds = 15, concurrency = 1 } = copies;
  const lambda = project.lambdaFunction;
  expect(lambda).toMatchObject({
    Handler: 'handler.handler',
    CodeUri: 'build/',
    FunctionUrlConfig: { AuthType: 'NONE' },
  });
  expect(lambda.Timeout).toBeGreaterThan(timeoutSeconds);
  expect(lambda.ReservedConcurrentExecutions).toBe(concurrency);
  const { spec } = project.knativeService.spec.template;
  expect(spec.timeoutSeconds).toBeGreaterThan(timeoutSeconds);
  expect(spec.containerConcurrency).toBe(concurrency);
});

describe.each(PLATFORMS)('$name', (platform) => {
  describePlatform(platform, () => ({ project, templates, reviews, account, secret }));
});

/** What a kubeconfig says, as variables and a file. */
async function accountOf(kubeconfig: string, directory: string): Promise<Account> {
  const config = parse(await readFile(kubeconfig, 'utf8')) as {
    clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
    users: { user: { token: string } }[];
  };
  const [{ cluster } = {}] = config.clusters;
  const [{ user } = {}] = config.users;
  if (!cluster || !user) throw new Error(`${kubeconfig} names no cluster or no user`);
  const caFile = join(directory, 'ca.crt');
  await writeFile(caFile, Buffer.from(cluster['certificate-authority-data'], 'base64'));
  return { server: cluster.server, caFile, token: user.token, kubeconfig };
}
