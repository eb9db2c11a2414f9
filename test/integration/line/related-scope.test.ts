import { Redis } from 'ioredis';
import { describe, expect } from 'vitest';
import { controller, type Controller } from '../../../src/function/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { it, type World } from '../../harness/world.ts';

describe('the related objects of keys whose namespace is declared no longer', () => {
  const left = uniqueName('left');
  let kept: string;
  let world: World;
  let redis: Redis;

  it.beforeAll(async ({ world: made }) => {
    world = made;
    const { cluster, setting, started } = world;
    kept = world.namespace;
    await cluster.createNamespace(left);
    started.add(() => cluster.deleteNamespace(left));
    redis = new Redis(setting.redisUrl);
    started.add(async () => redis.disconnect());
    for (const namespace of [kept, left]) await cluster.create(configMaps, { metadata: { namespace, name: 'parent' } });
  });

  const naming = (namespaces: string[]): Controller =>
    controller({
      name: 'naming',
      for: { resource: configMaps, namespaces },
      watches: [{ resource: configMaps, map: { by: 'related' } }],
    }).reconcile(async ({ namespace = '', name }, { related }) => {
      if (name === 'parent') related([{ resource: configMaps, namespace, names: ['child'] }]);
    });

  async function start(namespaces: string[]): Promise<{ fn: ServedFunction; gateway: Opened }> {
    const { setting, started } = world;
    const fn = await started.open(new ServedFunction(naming(namespaces), setting));
    return { fn, gateway: started.keep(await openGateway(setting, [fn.url])) };
  }

  /** The keys that have rules, and those that the index of the rules names. */
  async function keysWithRules(): Promise<{ rules: string[]; index: string[] }> {
    const { keyPrefix } = world.setting;
    const [related = ''] = await redis.keys(`*${keyPrefix}*:related`);
    const [index = ''] = await redis.keys(`*${keyPrefix}*:related-index`);
    const members = await redis.zrange(index, '0', '-1');
    return {
      rules: (await redis.hkeys(related)).toSorted(),
      index: members.map((member) => member.slice(member.lastIndexOf('\n') + 1)).toSorted(),
    };
  }

  it('are forgotten, and wake nothing', async ({ world: { cluster } }) => {
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
