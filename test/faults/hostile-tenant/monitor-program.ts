import { setTimeout as sleep } from 'node:timers/promises';
import { type KubernetesObject, messageOf, type Resource, resourcePath } from '../../../src/core/index.ts';
import { ChangeWatch } from '../../harness/change-watch.ts';
import { Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { measureSlowdown } from '../../harness/pace.ts';
import type { Changed, Lagged, Paced, Polled, Reviewed, Told } from './monitor.ts';
import { secrets, victimNames } from './victim.ts';

/**
 * The program of `Monitor`: changes the victim's objects, watches them as any client does, and asks the gateway how it
 * is. A process of its own, so that what the tenant's requests cost their sender delays no measurement.
 */
const CHANGE_EVERY_MS = 250;
const REVIEW_EVERY_MS = 500;
const POLL_EVERY_MS = 200;
const POLL_LIMIT_MS = 20_000;
/** How often it is looked whether this process itself comes late. */
const LAG_EVERY_MS = 50;
const TOLD_LAG_MS = 50;
/** How often it is measured what the processor gives. */
const PACE_EVERY_MS = 1000;

const [kubeconfig = '', namespace = '', canary = '', gatewayUrl = ''] = process.argv.slice(2);
const cluster = await Cluster.connect(kubeconfig);
const say = (line: Changed | Told | Polled | Paced | Reviewed | Lagged): void =>
  void process.stdout.write(`${JSON.stringify(line)}\n`);

let lookedAtMs = performance.now();
setInterval(() => {
  const now = performance.now();
  const late = Math.max(0, now - lookedAtMs - LAG_EVERY_MS);
  if (late > TOLD_LAG_MS) say({ msg: 'lagged', fromMs: Date.now() - late, toMs: Date.now() });
  lookedAtMs = now;
}, LAG_EVERY_MS);

for (const kind of [configMaps, pods, secrets]) {
  await ChangeWatch.start(cluster, kind, namespace, (_, object) => say({ msg: 'told', ...idOf(object, kind) }));
}
await Promise.all([change(), poll('/livez'), poll('/readyz'), review(), pace()]);

async function change(): Promise<void> {
  // Each key is woken by one kind alone: another one's wakeup must not stand in for its own.
  const objects = victimNames(canary).map(({ configMap, pod, secret }, at) => {
    const [kind, name] = at % 3 === 0 ? [configMaps, configMap] : at % 3 === 1 ? [pods, pod] : [secrets, secret];
    return { configMap, kind, name };
  });
  for (let at = 0; ; at += 1) {
    const { configMap, kind, name } = objects[at % objects.length] ?? { configMap: '', kind: configMaps, name: '' };
    try {
      const object = await cluster.patch<KubernetesObject>(
        kind,
        { namespace, name },
        {
          metadata: { annotations: { at: `${at}-${canary}` } },
        },
      );
      say({ msg: 'changed', key: `${namespace}/${configMap}`, ...idOf(object, kind) });
    } catch (error) {
      // The apiserver is busy: what it has not written is no change.
      process.stdout.write(`not changed: ${messageOf(error)}\n`);
    }
    await sleep(CHANGE_EVERY_MS);
  }
}

/** Has a new object reviewed, and not stored. */
async function review(): Promise<void> {
  for (;;) {
    let error = '';
    try {
      await cluster.client.json({
        method: 'POST',
        path: resourcePath(configMaps, { namespace }),
        query: { dryRun: 'All' },
        body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: `reviewed-${canary}` } },
      });
    } catch (thrown) {
      error = messageOf(thrown);
    }
    // The apiserver may be too busy to ask.
    if (error === '' || error.includes('webhook')) say({ msg: 'reviewed', error, atMs: Date.now() });
    await sleep(REVIEW_EVERY_MS);
  }
}

async function poll(path: Polled['path']): Promise<void> {
  for (;;) {
    const startedAtMs = performance.now();
    let [status, text] = [0, ''];
    try {
      const answer = await fetch(`${gatewayUrl}${path}`, { signal: AbortSignal.timeout(POLL_LIMIT_MS) });
      status = answer.status;
      text = await answer.text();
    } catch (error) {
      text = messageOf(error);
    }
    const tookMs = performance.now() - startedAtMs;
    say({ msg: 'polled', path, status, tookMs, atMs: Date.now(), text: status === 200 ? '' : text });
    await sleep(POLL_EVERY_MS);
  }
}

async function pace(): Promise<void> {
  for (;;) {
    say({ msg: 'paced', slowdown: measureSlowdown(), atMs: Date.now() });
    await sleep(PACE_EVERY_MS);
  }
}

function idOf({ metadata }: KubernetesObject, { apiVersion, kind }: Resource) {
  const { name, resourceVersion } = metadata;
  return { object: `${apiVersion}/${kind} ${namespace}/${name}`, resourceVersion, atMs: Date.now() };
}
