import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import type { Diagnosis, Section } from '../../../src/cli/doctor/diagnosis.ts';
import { readUsage, type RedisUsage } from '../../../src/cli/doctor/redis-usage.ts';
import { gatewayKeys, viewKeys, viewPrefix } from '../../../src/contract/cache-layout.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { levelhook } from '../../harness/user-command.ts';

const started = new Started();
const namespace = uniqueName('doctor');
const NOWHERE = 'http://127.0.0.1:1';
let cluster: Cluster;
let server: RedisServer;
let redis: Redis;
let setting: Setting;
let observer: Observer;
let folder: string;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  folder = await started.directory();
  server = await startRedis({ ignoreEnvironment: true, appendOnly: true });
  started.add(() => server.stop());
  redis = await connectRedis(server.url);
  started.add(async () => redis.disconnect());
  setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: server.url });
  await cluster.create(configMaps, { metadata: { namespace, name: 'one' } });
  observer = started.keep(
    await openObserver(setting, { name: 'observer', for: { resource: configMaps, namespaces: [namespace] } }),
  );
  // What it leaves in Redis is looked at.
  const gateway = started.keep(await openGateway(setting, [observer.url]));
  await untilReady(gateway.url);
  await untilIdle(gateway.url);
  await gateway.process.kill('SIGTERM');
});
afterAll(() => started.stop());

/** The gateway has ended. */
const SILENT = expect.stringMatching(/^no gateway was heard of in the last 45 s/) as string;

interface Said {
  readonly code: number | string;
  readonly output: string;
  readonly keys: RedisUsage | undefined;
  /** Of one section: those of a level, or all. */
  readonly of: (section: string, level?: Diagnosis['level']) => string[];
}

/** Runs the doctor with the settings of the gateway. */
async function doctor(env: Readonly<Record<string, string>> = {}): Promise<Said> {
  const command = levelhook(['doctor', '--output', 'json'], {
    KUBECONFIG: setting.kubeconfig,
    REDIS_URL: setting.redisUrl,
    LEVELHOOK_KEY_PREFIX: setting.keyPrefix,
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    LEVELHOOK_FUNCTIONS: observer.url,
    LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    ...env,
  });
  started.add(() => command.clean());
  const code = await command.exited;
  expect(command.complaints, command.output).toEqual([]);
  const { sections, keys } = JSON.parse(command.stdout.join('\n')) as { sections: Section[]; keys?: RedisUsage };
  return {
    code,
    output: command.output,
    keys,
    of: (name, level) =>
      (sections.find((each) => each.name === name)?.findings ?? [])
        .filter((each) => level === undefined || each.level === level)
        .map(({ text }) => text),
  };
}

/** What the doctor said, once Redis is again as it was, however the doctor ended. */
async function restored(said: Promise<Said>, restore: () => Promise<unknown>): Promise<Said> {
  try {
    return await said;
  } finally {
    await restore();
  }
}

/** The commands that a Redis has executed since its statistics were reset, and whether they may write. */
async function commandsSince(connection: Redis): Promise<{ name: string; writes: boolean }[]> {
  const names = [...(await connection.info('commandstats')).matchAll(/^cmdstat_([^:]+):/gm)].map(
    ([, name = '']) => name,
  );
  return Promise.all(
    names.map(async (name) => {
      const [about] = (await connection.call('COMMAND', 'INFO', name)) as [unknown, unknown, string[]][];
      return { name, writes: about?.[2].includes('write') ?? true };
    }),
  );
}

/** The same cluster as another user. */
function kubeconfig(change: (config: { clusters: object[]; users: object[] }) => void): string {
  const config = parse(readFileSync(setting.kubeconfig, 'utf8')) as { clusters: object[]; users: object[] };
  change(config);
  const path = join(folder, uniqueName('kubeconfig'));
  writeFileSync(path, JSON.stringify(config));
  return path;
}

describe('levelhook doctor', () => {
  it('finds no problem where all is well, and changes nothing', async () => {
    await redis.config('RESETSTAT');
    const said = await doctor();
    // Keys may expire meanwhile, so the commands are looked at and not the keys.
    const commands = await commandsSince(redis);
    expect(commands.map(({ name }) => name)).toEqual(expect.arrayContaining(['scan', 'memory|usage', 'hgetall']));
    expect(commands.filter(({ writes }) => writes)).toEqual([]);
    expect(said.code, said.output).toBe(0);
    for (const section of ['settings', 'Redis', 'views and queues', 'apiserver', 'rights', 'functions']) {
      expect(said.of(section, 'ok'), section).not.toEqual([]);
      const silent = section === 'views and queues' ? [SILENT] : [];
      expect([...said.of(section, 'problem'), ...said.of(section, 'warning')], section).toEqual(silent);
    }
    expect(said.of('views and queues').join('\n')).toMatch(/^view v1\/ConfigMap: [1-9]\d* objects, 0 wakeups/);
    expect(said.of('views and queues').at(-1)).toMatch(/^queue observer: (?:idle|busy), \d+ queued, \d+ running,/);
    expect(said.of('functions')).toEqual([`${observer.url} answers: controller observer`]);
    expect(said.output).not.toContain(setting.secret);
  });

  it('warns that reviews come without the cache where the gateway cannot know the apiserver', async () => {
    const webhooks = {
      LEVELHOOK_WEBHOOK_LISTEN: '127.0.0.1:0',
      LEVELHOOK_WEBHOOK_URL: 'https://127.0.0.1:1',
      LEVELHOOK_WEBHOOK_SECRET: 'default/levelhook-webhooks',
    };
    const said = await doctor(webhooks);
    expect(said.code, said.output).toBe(0);
    expect(said.of('settings', 'warning')).toEqual([expect.stringContaining('set LEVELHOOK_WEBHOOK_CLIENT_CA_FILE')]);
    const known = await doctor({ ...webhooks, LEVELHOOK_WEBHOOK_CLIENT_CA_FILE: join(folder, 'no-such-file') });
    expect(known.of('settings', 'warning')).toEqual([]);
    expect(known.of('settings', 'problem')).toEqual([expect.stringContaining('no-such-file')]);
  });

  it('prints lines for a person, and warns of a Redis without persistence', async () => {
    const command = levelhook(['doctor', '--kubeconfig', setting.kubeconfig], {
      REDIS_URL: inject('redisUrl'),
      LEVELHOOK_RECONCILE_FUNCTIONS: 'none',
    });
    started.add(() => command.clean());
    expect(await command.exited, command.output).toBe(0);
    expect(command.stdout[0]).toBe('settings');
    expect(command.stdout).toContain('  ok       maxmemory-policy is noeviction');
    expect(command.stdout).toContainEqual(expect.stringMatching(/^ {2}warning .*keeps no data on disk/));
    expect(command.stdout.at(-1)).toMatch(/^0 problems, \d+ warnings?$/);
  });

  it('finds a policy that evicts, dead letters, a pause, and functions that do not answer', async () => {
    await installReconcileFunctions(cluster);
    const tenant = await new Tenant(cluster, namespace).create();
    await tenant.allow('own', [{ apiGroups: [''], resources: ['configmaps'] }]);
    const spec = { for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } };
    await tenant.declare('silent', { ...spec, endpoint: { url: NOWHERE } });
    await tenant.declare('forbidden', { for: { apiVersion: 'v1', kind: 'Pod' }, endpoint: { url: NOWHERE } });
    const keys = queueKeys(
      { keyPrefix: setting.keyPrefix, clusterId: await clusterIdentity(cluster.client) },
      'observer',
    );
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await redis.zadd(keys.dead, 1, `${namespace}/one`);
    await redis.hset(keys.pauses, 'controller', 1);
    await redis.zadd(keys.pauseEnds, '+inf', 'controller');
    const settings = { LEVELHOOK_FUNCTIONS: NOWHERE, ...settingsFor([namespace], [NOWHERE]) };
    const said = await restored(doctor(settings), async () => {
      await redis.config('SET', 'maxmemory-policy', 'noeviction');
      await redis.unlink(keys.dead, keys.pauses, keys.pauseEnds);
    });
    expect(said.code).toBe(1);
    expect(said.of('Redis', 'problem')).toEqual([expect.stringContaining('maxmemory-policy is allkeys-lru')]);
    expect(said.of('views and queues', 'warning')).toEqual([
      SILENT,
      expect.stringMatching(/^queue observer: dead letters, .* 1 dead:/),
      expect.stringContaining('is paused'),
    ]);
    const problems = said.of('functions', 'problem').toSorted();
    expect(problems, said.output).toEqual([
      expect.stringMatching(new RegExp(`^ReconcileFunction ${namespace}/forbidden cannot run: .* may not get`)),
      expect.stringMatching(new RegExp(`^ReconcileFunction ${namespace}/silent does not answer: .*refused`)),
      expect.stringContaining(`${NOWHERE} does not answer as a function (connection refused`),
    ]);
    // No gateway runs for them.
    expect(said.of('functions', 'warning')).toHaveLength(2);
    expect(said.output).not.toContain(tenant.secret);
  });

  it('finds that Redis is a replica, and names the rights that a user lacks', async () => {
    const user = `system:serviceaccount:${namespace}:nothing`;
    const poor = kubeconfig((config) => {
      const users = config.users as { user: object }[];
      config.users = users.map((each) => ({ ...each, user: { ...each.user, as: user } }));
    });
    await redis.replicaof('127.0.0.1', 1);
    const said = await restored(doctor({ KUBECONFIG: poor }), () => redis.replicaof('NO', 'ONE'));
    expect(said.code).toBe(1);
    expect(said.of('Redis', 'problem')).toContain('Redis is a replica of 127.0.0.1:1: name the master in REDIS_URL');
    expect(said.of('rights', 'problem')).toEqual([
      `${user} may not get namespaces kube-system, which the gateway needs to name the cluster: grant it`,
      `${user} may not get, list, watch configmaps, which the gateway needs to cache v1/ConfigMap: grant it`,
    ]);
    expect(said.of('rights', 'warning')).toEqual([expect.stringContaining('leases.coordination.k8s.io')]);
  });

  it('looks at the rest when Redis is away', async () => {
    const said = await doctor({ REDIS_URL: 'redis://me:hidden@127.0.0.1:1' });
    expect(said.code).toBe(1);
    expect(said.of('Redis')).toEqual([expect.stringMatching(/^Redis does not answer at redis:\/\/\*\*\*@127/)]);
    expect(said.of('apiserver', 'ok')).toHaveLength(2);
    expect(said.of('functions', 'ok')).toHaveLength(1);
    expect(said.output).not.toContain('hidden');
  });

  it('looks at the rest when the apiserver is away', async () => {
    const away = kubeconfig((config) => {
      config.clusters = config.clusters.map((each) => ({ ...each, cluster: { server: 'https://127.0.0.1:1' } }));
    });
    const said = await doctor({ KUBECONFIG: away });
    expect(said.code).toBe(1);
    expect(said.of('apiserver')).toEqual([expect.stringContaining('cannot be used (connect ECONNREFUSED')]);
    expect(said.of('Redis', 'problem')).toEqual([]);
    expect(said.keys?.kinds.map(({ kind }) => kind)).toContain('objects');
    expect(said.of('views and queues', 'warning')).toEqual([expect.stringContaining('they are not shown')]);
    expect(said.of('functions', 'ok')).toHaveLength(1);
  });

  it('says which setting is wrong', async () => {
    const said = await doctor({ LEVELHOOK_KEY_PREFIX: 'a b' });
    expect(said.code).toBe(1);
    expect(said.of('settings', 'problem')).toEqual([expect.stringContaining('LEVELHOOK_KEY_PREFIX is wrong')]);
  });

  it('shows each wrong file of the settings, and looks at the rest', async () => {
    const said = await doctor({ LEVELHOOK_SIGNING_SECRETS: 'hidden', LEVELHOOK_CACHE_FILE: join(folder, 'nowhere') });
    expect(said.code).toBe(1);
    expect(said.of('settings', 'problem')).toEqual([
      expect.stringContaining('LEVELHOOK_SIGNING_SECRETS is wrong'),
      expect.stringContaining('nowhere'),
    ]);
    expect(said.of('functions', 'problem')).toHaveLength(1);
    expect(said.of('Redis', 'problem')).toEqual([]);
    expect(said.output).not.toContain('hidden');
  });

  it.each([
    [
      ['--ouptut'],
      /^levelhook: unknown option '--ouptut' \(Did you mean --output\?\); levelhook doctor --help shows the usage\.$/,
    ],
    [['now'], /^levelhook: too many arguments for 'doctor'.*levelhook doctor --help shows the usage\.$/],
  ])('refuses %j in one sentence, with exit code 2', async (args, sentence) => {
    const command = levelhook(['doctor', ...args]);
    started.add(() => command.clean());
    expect(await command.exited).toBe(2);
    expect(command.stdout).toEqual([]);
    expect(command.complaints).toEqual([expect.stringMatching(sentence)]);
  });
});

describe('the keys by kind', () => {
  const scope = { keyPrefix: 'levelhook', clusterId: 'c' };
  let own: Redis;
  let all: number;

  beforeAll(async () => {
    const another = await startRedis({ ignoreEnvironment: true });
    started.add(() => another.stop());
    own = await connectRedis(another.url);
    started.add(async () => own.disconnect());
    const view = viewKeys(viewPrefix({ ...scope, resource: configMaps, settings: 's' }));
    const queue = queueKeys(scope, 'web');
    await own.hset(view.objects, { a: 'x'.repeat(5000), b: 'y' });
    await own.sadd(gatewayKeys(scope).views, 'v');
    await own.zadd(queue.timers, 1, 'a');
    await own.set('foreign', 'x');
    for (let at = 0; at < 3000; at += 1) await own.hset(`${queue.recordPrefix}ns/${at}`, 'barrier', '1');
    all = await own.dbsize();
  });

  const sum = ({ kinds }: RedisUsage, of: 'keys' | 'bytes'): number =>
    kinds.reduce((total, each) => total + each[of], 0);

  it('add up to all keys and all their memory when each is measured', async () => {
    const usage = await readUsage(own, scope, { scan: 1_000_000, sample: 1_000_000 });
    const sizes = await Promise.all((await own.keys('*')).map((key) => own.memory('USAGE', key)));
    expect(usage).toMatchObject({ total: all, scanned: all, measured: all });
    expect(sum(usage, 'keys')).toBe(all);
    expect(sum(usage, 'bytes')).toBe(sizes.reduce<number>((total, size) => total + (size ?? 0), 0));
    expect(Object.fromEntries(usage.kinds.map(({ kind, keys }) => [kind, keys]))).toEqual({
      objects: 1,
      queues: 1,
      records: 3000,
      gateway: 1,
      'other programs': 1,
    });
  });

  it('are counted all, and measured in part, within the limits', async () => {
    const usage = await readUsage(own, scope);
    expect(usage).toMatchObject({ total: all, scanned: all, measured: 104 });
    const [exact, estimated] = [await readUsage(own, scope, { scan: 1e6, sample: 1e6 }), usage].map((each) =>
      sum(each, 'bytes'),
    );
    expect(Math.abs((estimated ?? 0) / (exact ?? 1) - 1)).toBeLessThan(0.05);
  });

  it('are extrapolated to all keys when only some names are read', async () => {
    const usage = await readUsage(own, scope, { scan: 1000, sample: 100 });
    expect(usage.scanned).toBeLessThan(all);
    expect(usage.total).toBe(all);
    expect(Math.abs(sum(usage, 'keys') - all)).toBeLessThanOrEqual(usage.kinds.length);
  });
});
