import { execFileSync } from 'node:child_process';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import type { Description, Trigger } from '../../src/contract/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { done, RawFunction } from '../harness/raw-function.ts';
import { Started } from '../harness/started.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const KEYS = Array.from({ length: 10 }, (_, at) => `key-${at}`);
const RUN_MS = 20;

/** A controller over the ConfigMaps of a namespace, at one or more URLs: it counts the runs of a key at a time. */
class Runs {
  readonly name: string;
  /** The keys of its runs, in the order in which they began. */
  readonly begun: string[] = [];
  /** The most runs of one key at a time. */
  most = 0;
  readonly #namespace: string;
  readonly #working = new Map<string, number>();

  constructor(name: string, namespace: string) {
    this.name = name;
    this.#namespace = namespace;
  }

  /** One more function of this name, with a declaration of its own. */
  async open(started: Started, declared: Partial<Description> = {}): Promise<string> {
    const source = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [this.#namespace] };
    const fn = new RawFunction({ name: this.name, for: source, concurrency: 5, timeoutSeconds: 15, ...declared });
    fn.onTrigger = (trigger, response) => void this.#run(trigger, response);
    return (await started.open(fn)).url;
  }

  async #run({ requests }: Trigger, response: ServerResponse): Promise<void> {
    const { name = '' } = requests[0] ?? {};
    this.begun.push(name);
    const working = (this.#working.get(name) ?? 0) + 1;
    this.#working.set(name, working);
    this.most = Math.max(this.most, working);
    await sleep(RUN_MS);
    this.#working.set(name, (this.#working.get(name) ?? 1) - 1);
    done(response, response.req);
  }
}

/** How the gateways of one revision are started. */
interface Revision {
  readonly functionUrls: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
  readonly setting?: Partial<Setting>;
  readonly script?: string;
}

interface Scene {
  readonly started: Started;
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly setting: Setting;
  /** A controller that both revisions have. */
  readonly runs: Runs;
  /** A controller of the new revision alone, if the form has one. */
  readonly added: Runs;
}

/** What an update changes. */
interface Form {
  readonly name: string;
  readonly revisions: (scene: Scene) => Promise<readonly [before: Revision, after: Revision]>;
  /** Whether the controller `added` is in the new revision. */
  readonly adds?: boolean;
}

/** Another build: a copy of this one that reads and writes another version of the data. */
async function buildOf({ started }: Scene, dataVersion: number): Promise<string> {
  const directory = await started.directory();
  await cp(join(ROOT, 'src'), join(directory, 'src'), { recursive: true });
  for (const name of ['node_modules', 'package.json']) await symlink(join(ROOT, name), join(directory, name));
  const path = join(directory, 'src/gateway/election/data-version.ts');
  const source = await readFile(path, 'utf8');
  const changed = source.replace(/DATA_VERSION = \d+;/, `DATA_VERSION = ${dataVersion};`);
  expect(changed).not.toBe(source);
  await writeFile(path, changed);
  return join(directory, 'src/cli/levelhook.js');
}

/** The build of a commit, with the packages of this one. */
async function buildAt({ started }: Scene, commit: string): Promise<string> {
  const directory = await started.directory();
  const archive = execFileSync('git', ['archive', commit, 'src', 'package.json'], { cwd: ROOT, maxBuffer: 1 << 28 });
  execFileSync('tar', ['-x', '-C', directory], { input: archive });
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return join(directory, 'src/cli/levelhook.js');
}

/** `ROLLING_UPDATES_FROM=<commit>`: one more form, an update from the build of this commit, and back to it. */
const EARLIER = process.env['ROLLING_UPDATES_FROM'];
const THIS_BUILD = 1;

const forms: readonly Form[] = [
  {
    name: 'a function is added',
    async revisions({ added, runs, started }) {
      const url = await runs.open(started);
      return [{ functionUrls: [url] }, { functionUrls: [url, await added.open(started)] }];
    },
    adds: true,
  },
  {
    name: 'a function declares one more kind',
    async revisions({ runs, started, namespace }) {
      const reads = [{ apiVersion: 'v1', kind: 'ServiceAccount', namespaces: [namespace] }];
      const [before, after] = [await runs.open(started), await runs.open(started, { reads })];
      return [{ functionUrls: [before] }, { functionUrls: [after] }];
    },
  },
  {
    name: 'the fields that are cached change',
    async revisions({ runs, started }) {
      const functionUrls = [await runs.open(started)];
      const file = join(await started.directory(), 'cache.yaml');
      await writeFile(file, 'kinds: { v1/ConfigMap: { drop: [metadata.managedFields, data.large] } }\n');
      return [{ functionUrls }, { functionUrls, variables: { LEVELHOOK_CACHE_FILE: file } }];
    },
  },
  {
    name: 'the build before wrote an earlier version of the data',
    async revisions(scene) {
      const functionUrls = [await scene.runs.open(scene.started)];
      return [{ functionUrls, script: await buildOf(scene, THIS_BUILD - 1) }, { functionUrls }];
    },
  },
  {
    name: 'the build after writes a later version of the data',
    async revisions(scene) {
      const functionUrls = [await scene.runs.open(scene.started)];
      return [{ functionUrls }, { functionUrls, script: await buildOf(scene, THIS_BUILD + 1) }];
    },
  },
  {
    name: 'the gateways that lead by the Lease are of another deployment',
    async revisions({ runs, started }) {
      const functionUrls = [await runs.open(started)];
      return [{ functionUrls }, { functionUrls, setting: { keyPrefix: uniqueName('test') } }];
    },
  },
  ...(EARLIER === undefined ? [] : between(EARLIER)),
];

function between(commit: string): Form[] {
  const revisions = async (scene: Scene): Promise<[Revision, Revision]> => {
    const functionUrls = [await scene.runs.open(scene.started)];
    return [{ functionUrls, script: await buildAt(scene, commit) }, { functionUrls }];
  };
  return [
    { name: `the build before is that of ${commit}`, revisions },
    {
      name: `the build after is that of ${commit}`,
      revisions: async (scene) => {
        const [earlier, current] = await revisions(scene);
        return [current, earlier];
      },
    },
  ];
}

/** A new gateway is ready within this time, or the update has stopped. */
const READY_MS = 30_000;

/** Two gateways are for the long form. */
const REPLICAS = process.env['ROLLING_UPDATES_LONG'] ? [1, 2] : [1];

describe.each(REPLICAS)('an update of a deployment of %i gateways', (replicas) => {
  it.for(forms)(
    'ends by itself, with each change reconciled and no key run twice at once, when $name',
    { timeout: 300_000 },
    async ({ adds = false, revisions }, { onTestFinished }) => {
      const started = new Started();
      onTestFinished(() => started.stop());
      const namespace = uniqueName('rolling');
      const cluster = await started.cluster(inject('kubeconfig'), namespace);
      const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
      const [runs, added] = [new Runs('runs', namespace), new Runs('added', namespace)];
      const [before, after] = await revisions({ started, cluster, namespace, setting, runs, added });
      await Promise.all(KEYS.map((name) => cluster.create(configMaps, { metadata: { namespace, name } })));

      const start = async (revision: Revision): Promise<Listening> => {
        const gateway = await startGateway(
          { ...setting, ...revision.setting },
          revision.functionUrls,
          { LEVELHOOK_LEASE: `${namespace}/levelhook`, ...revision.variables },
          revision.script,
        );
        started.keep(gateway);
        await untilReady(gateway.url, READY_MS);
        return gateway;
      };
      const old: Listening[] = [];
      for (let at = 0; at < replicas; at += 1) old.push(await start(before));
      await eventually(async () => expect(KEYS.filter((name) => !runs.begun.includes(name))).toEqual([]));

      /** How many runs had begun when each key was changed last. */
      const changed = new Map<string, number>();
      const updated = new AbortController();
      onTestFinished(() => updated.abort());
      const changing = (async () => {
        for (let count = 0; !updated.signal.aborted; count += 1) {
          const name = KEYS[count % KEYS.length] ?? '';
          // Before the change: its run may begin before the answer is here.
          changed.set(name, runs.begun.length);
          await cluster.patch(configMaps, { namespace, name }, { data: { count: String(count) } });
          await sleep(50);
        }
      })();
      // The chart's Deployment has `maxSurge: 1` and `maxUnavailable: 0`: an old gateway ends when the new one is
      // ready.
      const fresh: Listening[] = [];
      for (const gone of old) {
        fresh.push(await start(after));
        expect(await gone.process.kill('SIGTERM')).toBe(0);
      }
      updated.abort();
      await changing;

      await eventually(async () => {
        expect(KEYS.filter((name) => !runs.begun.includes(name, changed.get(name)))).toEqual([]);
        if (adds) expect(KEYS.filter((name) => !added.begun.includes(name))).toEqual([]);
      });
      await eventually(async () => {
        const leading = await Promise.all(fresh.map(({ url }) => metric(url, 'leader_election_master_status')));
        expect(leading.filter((each) => each === 1)).toHaveLength(1);
      });
      for (const { url } of fresh) await untilReady(url);
      expect([runs.most, added.most]).toEqual([1, adds ? 1 : 0]);
    },
  );
});
