import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource } from '../../../src/core/index.ts';
import { importSecret } from '../../../src/contract/index.ts';
import { readerPassword } from '../../../src/contract/node/reader-user.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { type Cluster, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  createSetting,
  type Setting,
  startFunction,
  startGateway,
  uniqueName,
  untilReady,
} from '../../harness/levelhook.ts';
import type { TestProcess } from '../../harness/process.ts';
import { secrets, startSecretFunction } from '../../harness/secret-function.ts';
import { Started } from '../../harness/started.ts';

const configMaps = resource('v1', 'ConfigMap');

describe('functions that are told where Redis is, and no password', () => {
  const started = new Started();
  const namespace = uniqueName('redis-users');
  let cluster: Cluster;
  let server: RedisServer;
  let admin: Redis;
  let setting: Setting;
  let fn: { process: TestProcess; url: string };
  let secretive: Awaited<ReturnType<typeof startSecretFunction>>;
  let gateway: { process: TestProcess; url: string };

  /** What an operator writes into Redis' aclfile: nobody in particular may do nothing. */
  async function lockRedis(): Promise<void> {
    await admin.call('ACL', 'SETUSER', 'admin', 'on', '>admins', '~*', '&*', '+@all');
    await admin.call('AUTH', 'admin', 'admins');
    await admin.call('ACL', 'SETUSER', 'default', '-@all');
  }
  const users = async (): Promise<string[]> => (await admin.call('ACL', 'USERS')) as string[];
  const count = async (): Promise<number> => (await cluster.list(pods, namespace)).items.length;
  const userOf = (controller: string): RegExp =>
    new RegExp(`^${setting.keyPrefix}:v1:[^:]+:reader:${controller}:[\\w-]{22}$`);

  beforeAll(async () => {
    const kubeconfig = inject('kubeconfig');
    cluster = await started.cluster(kubeconfig, namespace);
    server = await startRedis({ ignoreEnvironment: true });
    started.add(() => server.stop());
    admin = new Redis(server.url);
    started.add(async () => admin.disconnect());
    await lockRedis();
    setting = createSetting({ kubeconfig, redisUrl: server.url });
    fn = started.keep(await startFunction(setting));
    secretive = await startSecretFunction(setting, 'secretive', namespace, { reads: [configMaps] });
    started.add(() => secretive.stop());
    const redisUrl = server.url.replace('//', '//admin:admins@');
    gateway = started.keep(
      await startGateway({ ...setting, redisUrl }, [fn.url, secretive.url], {
        LEVELHOOK_REDIS_USERS: '*',
        LEVELHOOK_CACHE_KEYS: `k:${randomBytes(32).toString('base64')}`,
      }),
    );
    await untilReady(gateway.url);
  });
  afterAll(() => started.stop());

  it('read there, each as a user of its own', async () => {
    await cluster.create(replicaSets, replicaSet({ namespace, name: 'web' }, 4));
    await eventually(async () => expect(await count()).toBe(4));
    expect(await users()).toContainEqual(expect.stringMatching(userOf('replicaset')));
    expect(await admin.client('LIST')).toMatch(new RegExp(` user=${userOf('replicaset').source.slice(1, -1)} `));
    // Not by way of the gateway.
    expect(await (await fetch(`${gateway.url}/metrics`)).text()).not.toMatch(
      /levelhook_cache_requests_total\{.*\} [1-9]/,
    );
  });

  it('which may read no Secrets, not even encrypted', async () => {
    await cluster.create(secrets, { metadata: { namespace, name: 's' }, data: { password: 'aHVudGVy' } });
    await eventually(async () => expect(secretive.reads.map(({ key }) => key)).toContain('s'));
    const rules = ((await admin.call('ACL', 'LIST')) as string[]).filter((each) => each.includes(':reader:secretive:'));
    expect(rules.join('\n')).toContain(':v1/ConfigMap:');
    expect(rules.join('\n')).not.toContain('v1/Secret');
  });

  it('go on when Redis was killed and has started empty', async () => {
    await server.kill();
    await server.start();
    await lockRedis();
    await eventually(async () => expect(await users()).toContainEqual(expect.stringMatching(userOf('replicaset'))));
    await untilReady(gateway.url);
    await cluster.patch(replicaSets, { namespace, name: 'web' }, { spec: { replicas: 2 } });
    await eventually(async () => expect(await count()).toBe(2));
  });

  it('their passwords are in no log', async () => {
    const user = (await users()).find((each) => userOf('replicaset').test(each)) ?? '';
    const password = await readerPassword(await importSecret(setting.secret), user);
    for (const { output } of [fn.process, gateway.process]) expect(output).not.toContain(password);
  });
});
