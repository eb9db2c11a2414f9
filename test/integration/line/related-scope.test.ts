import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { controller, type Controller } from '../../../src/function/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { Started } from '../../harness/started.ts';

describe('the related objects of keys whose namespace is declared no longer', () => {
  const [kept, left] = [uniqueName('kept'), uniqueName('left')];
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;
  let redis: Redis;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), kept);
    await cluster.createNamespace(left);
    started.add(() => cluster.deleteNamespace(left));
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    redis = new Redis(setting.redisUrl);
    started.add(async () => redis.disconnect());
    for (const namespace of [kept, left]) await cluster.create(configMaps, { metadata: { namespace, name: 'parent' } });
  });

  afterAll(() => started.stop());

  const naming = (namespaces: string[]): Controller =>
    controller({
      name: 'naming',
      for: { resource: configMaps, namespaces },
      watches: [{ resource: configMaps, map: { by: 'related' } }],
    }).reconcile(async ({ namespace = '', name }, { related }) => {
      if (name === 'parent') related([{ resource: configMaps, namespace, names: ['child'] }]);
    });

  async function start(namespaces: string[]): Promise<{ fn: ServedFunction; gateway: Opened }> {
    const fn = await started.open(new ServedFunction(naming(namespaces), setting));
    return { fn, gateway: started.keep(await openGateway(setting, [fn.url])) };
  }

  /** The keys that have rules, and those that the index of the rules names. */
  async function keysWithRules(): Promise<{ rules: string[]; index: string[] }> {
    const [related = ''] = await redis.keys(`*${setting.keyPrefix}*:related`);
    const [index = ''] = await redis.keys(`*${setting.keyPrefix}*:related-index`);
    const members = await redis.zrange(index, '0', '-1');
    return {
      rules: (await redis.hkeys(related)).toSorted(),
      index: members.map((member) => member.slice(member.lastIndexOf('\n') + 1)).toSorted(),
    };
  }

  it('are forgotten, and wake nothing', async () => {
    const before = await start([kept, left]);
    const both = [`${kept}/parent`, `${left}/parent`].toSorted();
    await eventually(async () => expect(await keysWithRules()).toEqual({ rules: both, index: both }));
    await before.gateway.process.kill('SIGTERM');

    const { fn } = await start([kept]);
    await eventually(async () =>
      expect(await keysWithRules()).toEqual({ rules: [`${kept}/parent`], index: [`${kept}/parent`] }),
    );
    for (const namespace of [left, kept]) await cluster.create(configMaps, { metadata: { namespace, name: 'child' } });
    const woken = () => fn.triggers.flatMap(({ requests }) => requests.map((each) => `${each.namespace}/${each.name}`));
    await eventually(async () => expect(woken()).toContain(`${kept}/child`));
    expect(woken().filter((key) => key.startsWith(left))).toEqual([]);
  });
});
