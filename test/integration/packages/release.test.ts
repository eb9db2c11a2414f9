import { execFile, execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { unpackInto } from '../../../infra/checks/packed-packages.ts';
import { repositoryRoot } from '../../../infra/checks/temp-repository.ts';
import { eventually } from '../../harness/eventually.ts';
import { applyManifests, userOf } from '../../harness/identity.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { Started } from '../../harness/started.ts';
import { ReconcileFunction } from '../../harness/tenant.ts';

const run = promisify(execFile);

interface Published {
  readonly name: string;
  readonly access: string;
  readonly 'dist-tags': Readonly<Record<string, string>>;
  readonly versions: Readonly<
    Record<string, { readonly version: string; readonly repository: { readonly url: string } }>
  >;
}

/** What npm needs of a registry: it takes packages, and shows the versions that it has. */
class Registry extends LoopbackServer {
  readonly published: Published[] = [];
  /** The name of a package that it does not take. */
  refused: string | undefined;

  constructor() {
    super(createServer());
    this.answerBy((request, response) => this.#answer(request, response));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = decodeURIComponent((request.url ?? '').slice(1).split('?')[0] ?? '');
    const body = await text(request);
    const found = this.published.find((each) => each.name === name);
    if (request.method === 'PUT' && name !== this.refused && !found) {
      this.published.push(JSON.parse(body) as Published);
      response.writeHead(201).end('{}');
    } else if (request.method === 'PUT') response.writeHead(403).end('{}');
    else response.writeHead(found ? 200 : 404).end(JSON.stringify(found ?? {}));
  }
}

const started = new Started();
let root: string;
let registry: Registry;
let environment: NodeJS.ProcessEnv;

/** A copy of this tree, with a changeset in it. */
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'levelhook-release-'));
  for (const name of readdirSync(repositoryRoot)) {
    if (['node_modules', 'dist', '.git'].includes(name)) continue;
    cpSync(join(repositoryRoot, name), join(root, name), { recursive: true });
  }
  symlinkSync(join(repositoryRoot, 'node_modules'), join(root, 'node_modules'));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: root });
  git('init', '--quiet');
  writeFileSync(join(root, '.changeset/new.md'), "---\n'levelhook': major\n---\n\nFunctions do more.\n");
  git('add', '.');
  git('commit', '--quiet', '--message', 'start');
  registry = await started.open(new Registry());
  const { host } = new URL(registry.url);
  writeFileSync(join(root, '.npmrc'), `registry=http://${host}/\n//${host}/:_authToken=any\n`);
  environment = { ...process.env, npm_config_registry: `${registry.url}/`, npm_config_noproxy: '127.0.0.1' };
});

afterAll(async () => {
  await started.stop();
  rmSync(root, { recursive: true, force: true });
});

const script = (name: string, ...args: string[]) =>
  run(process.execPath, [`infra/release/${name}`, ...args], { cwd: root, env: environment });
const PACKAGES = ['levelhook', '@levelhook/function', 'create-levelhook'];
/** Of provenance npm makes a statement in GitHub's workflows only. */
const publish = () => script('publish-packages.ts', 'packages', '--no-provenance');

describe('a release', () => {
  it('makes the packages with the version of the changesets, and publishes them once each', async () => {
    await run('npm', ['run', 'new-version'], { cwd: root, env: environment });
    await script('pack-packages.ts', 'packages');

    // A release that broke off is repeated, and a whole one too.
    registry.refused = '@levelhook/function';
    await expect(publish()).rejects.toThrow('npm did not publish @levelhook/function@1.0.0');
    expect(registry.published.map(({ name }) => name)).toEqual(['levelhook']);
    registry.refused = undefined;
    expect((await publish()).stdout).toContain('levelhook@1.0.0 is published already');
    const { stdout } = await publish();
    for (const name of PACKAGES) expect(stdout).toContain(`${name}@1.0.0 is published already`);

    expect(registry.published.map(({ name }) => name)).toEqual(PACKAGES);
    for (const { access, versions, 'dist-tags': tags } of registry.published) {
      expect(access).toBe('public');
      expect(tags).toEqual({ latest: '1.0.0' });
      expect(Object.values(versions)).toMatchObject([
        { version: '1.0.0', repository: { url: 'git+https://github.com/levelhook/levelhook.git' } },
      ]);
    }
  }, 300_000);

  it('publishes the definitions and the roles that a cluster needs', async () => {
    const kubeconfig = inject('kubeconfig');
    // `shop` is the namespace of a function in the roles for one function alone.
    const cluster = await started.cluster(kubeconfig, 'shop');
    const installed = unpackInto(join(root, 'consumer'), 'levelhook', join(root, 'packages/levelhook-1.0.0.tgz'));
    const files = globSync(['infra/{crds,rbac}/*.yaml', 'dist/functions/**/{rbac,*.crd}.yaml'], { cwd: installed });
    const first = 'infra/rbac/gateway.yaml';
    const paths = [first, ...files.filter((file) => file !== first)].map((file) => join(installed, file));
    await applyManifests({ kubeconfig }, paths);
    await eventually(async () => cluster.list(ReconcileFunction, 'shop'));
    const resourceAttributes = { group: 'levelhook.dev', resource: 'reconcilefunctions', verb: 'watch' };
    const { status } = await cluster.client.json<{ status: { allowed: boolean } }>({
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      body: { spec: { user: userOf('gateway'), resourceAttributes } },
    });
    expect(status.allowed).toBe(true);
  });

  it('publishes nothing from a folder that has another file', async () => {
    const before = registry.published.length;
    writeFileSync(join(root, 'packages/other.tgz'), '');
    await expect(publish()).rejects.toThrow(
      'packages must have create-levelhook-1.0.0.tgz and levelhook-1.0.0.tgz and levelhook-function-1.0.0.tgz',
    );
    expect(registry.published).toHaveLength(before);
  });
});
