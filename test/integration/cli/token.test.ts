import { join, resolve } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { openObserver } from '../../harness/observer.ts';
import type { Opened } from '../../harness/opened.ts';
import { UserCommand } from '../../harness/user-command.ts';
import { it, type World } from '../../harness/world.ts';

const ROOT = resolve(import.meta.dirname, '../../..');

describe('levelhook token', () => {
  let world: World;
  let gateway: Opened;

  it.beforeAll(async ({ world: made }) => {
    world = made;
    const { cluster, namespace, setting, started } = world;
    await cluster.create(configMaps, { metadata: { namespace, name: 'one' } });
    const observer = started.keep(await openObserver(setting, { name: 'observer', for: configMaps }));
    gateway = await world.gateway([observer.url], { LEVELHOOK_CACHE_KEYS: CACHE_KEYS });
  });

  let keys = CACHE_KEYS;
  async function token(...args: string[]): Promise<{ code: number | string; stdout: string[]; stderr: string }> {
    const { setting, started } = world;
    const flags = ['--conditions=levelhook-source', join(ROOT, 'src/cli/levelhook.js'), 'token', ...args];
    const env = {
      KUBECONFIG: setting.kubeconfig,
      REDIS_URL: setting.redisUrl,
      LEVELHOOK_KEY_PREFIX: setting.keyPrefix,
      LEVELHOOK_CACHE_KEYS: keys,
    };
    const command = new UserCommand(process.execPath, flags, { env });
    started.add(() => command.clean());
    const code = await command.exited;
    return { code, stdout: command.stdout, stderr: command.complaints.join('\n') };
  }
  const read = async (path: string, bearer: string): Promise<{ status: number; text: string }> => {
    const answer = await fetch(`${gateway.url}/cache${path}`, { headers: { authorization: `Bearer ${bearer}` } });
    return { status: answer.status, text: await answer.text() };
  };

  it('prints a token that reads what was asked for, until it expires, and nothing else', async () => {
    const { namespace } = world;
    const { code, stdout, stderr } = await token(
      '--kinds',
      'v1/ConfigMap',
      '--namespaces',
      namespace,
      '--minutes',
      '5',
      '--name',
      'ann',
    );
    expect({ code, lines: stdout.length }, stderr).toEqual({ code: 0, lines: 1 });
    expect(stderr).toMatch(new RegExp(`^reads v1/ConfigMap in ${namespace} until \\d{4}-`));
    const [text = ''] = stdout;
    const claims = JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString()) as { exp: number };
    expect(Math.abs(claims.exp - (Date.now() / 1000 + 300))).toBeLessThan(60);
    const found = await read(`/api/v1/namespaces/${namespace}/configmaps/one`, text);
    expect(JSON.parse(found.text)).toMatchObject({ kind: 'ConfigMap', metadata: { name: 'one' } });
    const refused = await read('/api/v1/configmaps', text);
    expect(refused).toMatchObject({ status: 403, text: expect.stringContaining('levelhook:controller:ann') as string });
    expect((await read(`/api/v1/namespaces/${namespace}/pods`, text)).status).toBe(403);
  });

  it.each([
    [['--kinds', 'v1/Pod'], /v1\/Pod is not cached: the cached kinds are v1\/ConfigMap\.$/],
    [['--kinds', 'v1/../ConfigMap'], /--kinds: "v1\/\.\.\/ConfigMap" is no kind/],
    [['--kinds', 'v1/ConfigMap', '--namespaces', '..'], /--namespaces: "\.\." is not the name of a namespace/],
    [['--kinds', 'v1/ConfigMap', '--minutes', '1441'], /1 to 1440 minutes/],
    [[], /--kinds/],
  ])('refuses %j in one sentence', async (args, message) => {
    const { code, stdout, stderr } = await token(...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: [] });
    expect(stderr).toMatch(message);
    expect(stderr.split('\n')).toHaveLength(1);
  });

  it('prints a token after Redis has lost its data, once the gateway has filled it again', async () => {
    const redis = new Redis(world.setting.redisUrl);
    world.started.add(async () => redis.disconnect());
    expect(await redis.del(await redis.keys(`*${world.setting.keyPrefix}:*`))).toBeGreaterThan(0);
    const { stdout } = await eventually(async () => {
      const made = await token('--kinds', 'v1/ConfigMap');
      expect(made.code, made.stderr).toBe(0);
      return made;
    });
    const path = `/api/v1/namespaces/${world.namespace}/configmaps/one`;
    await eventually(async () => expect(await read(path, stdout[0] ?? '')).toMatchObject({ status: 200 }));
  });

  it('makes none without the keys of the gateway, and with others none that is good', async () => {
    keys = '';
    const refused = await token('--kinds', 'v1/ConfigMap');
    expect(refused).toMatchObject({ code: 1, stdout: [] });
    expect(refused.stderr).toMatch(/^levelhook: .*set LEVELHOOK_CACHE_KEYS/);
    keys = `test:${Buffer.alloc(32, 1).toString('base64')}`;
    const { stdout } = await token('--kinds', 'v1/ConfigMap');
    expect(stdout).toHaveLength(1);
    expect(await read('/api/v1/configmaps', stdout[0] ?? '')).toMatchObject({ status: 401 });
    keys = CACHE_KEYS;
  });
});
