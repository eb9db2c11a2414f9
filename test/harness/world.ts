import { expect, inject, test } from 'vitest';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import { createSetting, type Setting, uniqueName, untilReady } from './levelhook.ts';
import { type Opened, openGateway } from './opened.ts';
import { Started } from './started.ts';

/** What the tests of a file have for themselves, and what they start. */
export interface World {
  /** A namespace in the cluster that all system tests share. */
  readonly namespace: string;
  readonly cluster: Cluster;
  /** The shared apiserver and Redis, under a key prefix of the file's own. */
  readonly setting: Setting;
  readonly started: Started;
  /**
   * Opens a gateway over these functions, with default settings, and waits until it is ready.
   * @param variables more of its environment.
   */
  gateway(functionUrls: readonly string[], variables?: Readonly<Record<string, string>>): Promise<Opened>;
}

/** Until Kubernetes has put its own ConfigMap into a namespace: later it would be an event that no test expects. */
export async function untilFurnished(cluster: Cluster, namespace: string): Promise<void> {
  const key = { namespace, name: 'kube-root-ca.crt' };
  await eventually(async () => expect(await cluster.get(configMaps, key)).toBeDefined(), 60_000, 20);
}

/**
 * `it` with a `world`: `it.beforeAll(async ({ world }) => ...)`, `it('...', async ({ world }) => ...)`. The world is
 * made when a hook or a test first asks for it, and all that it started is stopped after the file. When a test fails,
 * `failure-log.ts` shows what these programs wrote.
 */
// oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures that this one needs from the pattern
export const it = test.extend('world', { scope: 'file' }, async ({}, { onCleanup }): Promise<World> => {
  const started = new Started();
  onCleanup(() => started.stop());
  const namespace = uniqueName('test');
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const cluster = await started.cluster(setting.kubeconfig, namespace);
  await untilFurnished(cluster, namespace);
  const gateway: World['gateway'] = async (functionUrls, variables) => {
    const opened = started.keep(await openGateway(setting, functionUrls, variables));
    await untilReady(opened.url);
    return opened;
  };
  return { namespace, cluster, setting, started, gateway };
});
