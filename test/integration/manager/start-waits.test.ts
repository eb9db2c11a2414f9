import { join } from 'node:path';
import { expect, inject } from 'vitest';
import { startRedis } from '../../../src/testing/index.ts';
import { CuttingProxy } from '../../harness/cutting-proxy.ts';
import { eventually } from '../../harness/eventually.ts';
import { type Setting, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { it, type World } from '../../harness/world.ts';

/** A server that is away, the setting that names it, what the gateway says of it, and its return. */
interface Away {
  readonly setting: Setting;
  readonly sentence: RegExp;
  readonly back: () => Promise<unknown>;
}

const servers: readonly { readonly name: string; readonly take: (world: World) => Promise<Away> }[] = [
  {
    name: 'Redis',
    async take({ setting, started }) {
      const redis = await startRedis({ ignoreEnvironment: true });
      started.add(() => redis.stop());
      await redis.kill('SIGKILL');
      const sentence = /Redis does not answer at redis:\S+ \(connect ECONNREFUSED/;
      return { setting: { ...setting, redisUrl: redis.url }, sentence, back: () => redis.start() };
    },
  },
  {
    name: 'the apiserver',
    async take({ setting, started }) {
      const proxy = await CuttingProxy.beforeApiserver(inject('kubeconfig'));
      started.add(() => proxy.stop());
      const kubeconfig = await proxy.kubeconfig(setting.kubeconfig, join(await started.directory(), 'kubeconfig'));
      proxy.sever();
      const sentence = /The apiserver at https:\S+ cannot be used \(/;
      return { setting: { ...setting, kubeconfig }, sentence, back: async () => proxy.mend() };
    },
  },
];

for (const { name, take } of servers) {
  it(`a gateway that starts while ${name} is away waits for it, alive and with the reason at readyz`, async ({
    world,
  }) => {
    const { setting, sentence, back } = await take(world);
    const gateway = world.started.keep(await openGateway(setting, []));
    await eventually(async () => {
      const answer = await fetch(`${gateway.url}/readyz`);
      expect(answer.status).toBe(503);
      expect(await answer.text()).toMatch(sentence);
    });
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200);
    const said = gateway.process.lines.filter(({ msg }) => msg === 'the start waits, trying again');
    expect(said.map(({ reason }) => String(reason))).toEqual([expect.stringMatching(sentence)]);
    await back();
    await untilReady(gateway.url);
  });

  it(`a gateway that waits for ${name} at its start stops in order`, async ({ world }) => {
    const { setting, sentence } = await take(world);
    const gateway = world.started.keep(await openGateway(setting, []));
    await eventually(async () => expect(await (await fetch(`${gateway.url}/readyz`)).text()).toMatch(sentence));
    expect(await gateway.process.kill('SIGTERM')).toBe(0);
  });
}
