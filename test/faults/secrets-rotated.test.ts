import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { generateSecret } from '../../src/contract/index.ts';
import type { Cluster } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { type Line, TestProcess } from '../harness/process.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

/** Each step restarts one side with other secrets, as a rollout does; the order is the one that loses nothing. */
describe('a signing secret rotated while objects change', () => {
  const namespace = uniqueName('rotated');
  const started = new Started();
  const [old, fresh] = [generateSecret(), generateSecret()];
  const observers: Observer[] = [];
  const gateways: TestProcess[] = [];
  let cluster: Cluster;
  let setting: Setting;
  let port = 0;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  });

  afterAll(() => started.stop());

  async function functionHas(...secrets: string[]): Promise<void> {
    await observers.at(-1)?.process.kill('SIGTERM');
    const having = { ...setting, secret: secrets.join(' ') };
    const observer = started.keep(await startObserver(having, configMapsOf(namespace), { port }));
    observers.push(observer);
    port = Number(new URL(observer.url).port);
  }

  async function gatewaySignsWith(...secrets: string[]): Promise<void> {
    expect((await gateways.at(-1)?.kill('SIGTERM')) ?? 0).toBe(0);
    const own = { ...setting, secret: secrets.join(' ') };
    const { process, url } = started.keep(await startGateway(own, [`http://127.0.0.1:${port}`]));
    gateways.push(process);
    await untilReady(url);
  }

  it('loses no trigger, and none is refused', async () => {
    await functionHas(old);
    await gatewaySignsWith(old);
    const changes = new ConfigMapChanges(cluster, namespace, { count: 50, random: seededRandom('secrets-rotated') });
    await changes.createAll();
    await changes.keepChanging(30, async () => {
      await functionHas(old, fresh);
      await gatewaySignsWith(old, fresh);
      await functionHas(fresh);
      await gatewaySignsWith(fresh);
    });
    await eventually(async () => expect(await changes.unreconciled(...observers)).toEqual([]));
    const triggers = gateways.flatMap(({ lines }) => lines.filter(isTrigger));
    expect(triggers.filter(({ error }) => String(error).includes('answered 401'))).toEqual([]);
  });

  it('is refused from then on where it is still used, with the reason in the log and at /readyz', async () => {
    const stale = started.keep(
      await startGateway({ ...setting, keyPrefix: uniqueName('stale'), secret: old }, [`http://127.0.0.1:${port}`]),
    );
    const line = await stale.process.line(({ msg }) => String(msg).includes('did not describe itself'));
    expect(line['error']).toContain(
      'refuses the signature: check that gateway and function have the same signing secret',
    );
    expect(await (await fetch(`${stale.url}/readyz`)).text()).toContain('refuses the signature');
    expect(stale.process.output).not.toContain(old);
  });

  it('tells at its start that a function was given a malformed one, and not which', async () => {
    const wrong = new TestProcess('functions/replicaset/node.ts', [], {
      LEVELHOOK_SIGNING_SECRETS: `${fresh} whsec_hush*hush`,
      REDIS_URL: setting.redisUrl,
      KUBECONFIG: setting.kubeconfig,
      PORT: '0',
    });
    started.keep({ process: wrong });
    expect(await wrong.exited).toBe(1);
    expect(wrong.output).toBe('signing secret 2 of 2 is malformed: a signing secret is "whsec_" followed by base64.');
  });
});

function isTrigger({ msg }: Line): boolean {
  return msg === 'trigger';
}
