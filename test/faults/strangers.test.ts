import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Listening, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { allow, ReviewFunction } from '../harness/review-function.ts';
import { Started } from '../harness/started.ts';
import { Stranger } from '../harness/stranger.ts';
import { configureWebhook, reviewServing, type ReviewServing, reviewsUrl } from '../harness/webhook-configurations.ts';

const WRITES = 200;
/** As many at a time, each on a connection of its own. */
const WRITERS = 20;
const SILENT = 4200;
/** Longer than the apiserver waits. */
const SLOW_MS = 25_000;

const started = new Started();
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
let serving: ReviewServing;

beforeAll(async () => {
  serving = await reviewServing(started, inject('kubeconfig'));
});
afterAll(() => started.stop());

/** Silent connections, bodies that lack a byte, and slow reviews: with the addresses from which each comes. */
describe.each([
  { gateway: 'that knows no apiserver', knows: false, addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4'] },
  // As behind a proxy of the network: their address is that of the apiserver.
  { gateway: 'that knows the apiserver', knows: true, addresses: ['127.0.0.1', '127.0.0.1', '127.0.0.1'] },
])('strangers at the port of reviews of a gateway $gateway', ({ knows, addresses }) => {
  const namespace = uniqueName('strangers');
  let cluster: Cluster;
  let gateway: Listening;
  let url: string;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const fn = await started.open(
      new ReviewFunction(
        {
          name: 'guard',
          for: configMap,
          webhooks: [{ ...configMap, type: 'validating', name: 'rule', operations: ['CREATE'] }],
        },
        setting.secret,
      ),
    );
    fn.behaviour = (review, response) => {
      if (review.request.name !== 'slow') return allow(review, response);
      setTimeout(() => allow(review, response), SLOW_MS).unref();
    };
    gateway = started.keep(await startGateway(setting, [fn.url], knows ? serving.settings : serving.anonymous));
    await untilReady(gateway.url);
    url = `${await reviewsUrl(gateway)}/webhooks/guard`;
    const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
    await configureWebhook(options, url, {
      type: 'validating',
      name: 'rule',
      operations: ['CREATE'],
      rule: ['', 'v1', 'configmaps'],
    });
    await eventually(async () => {
      await cluster.create(configMaps, { metadata: { namespace, generateName: 'probe-' } });
      expect(fn.reviews).not.toEqual([]);
    });
  });

  it(`fail none of ${WRITES} writes of the cluster`, { timeout: 300_000 }, async () => {
    const [silent, bodies, slow] = addresses.map((address) => new Stranger(address, `${url}/rule?timeout=30s`));
    if (!silent || !bodies || !slow) throw new Error('three strangers');
    const stop = async (): Promise<void> => {
      await Promise.all([silent, bodies, slow].map((each) => each.stop()));
    };
    const errors: string[] = [];
    let slowestMs = 0;
    try {
      silent.keepSilent(SILENT);
      bodies.keepSendingBodies(10, 8 * 1024 * 1024);
      slow.keepReviewing(64, { namespace, name: 'slow' });
      // All have tried, and hold what they can get.
      await eventually(async () => {
        expect(silent.tries).toBeGreaterThanOrEqual(SILENT);
        expect(slow.tries).toBeGreaterThanOrEqual(64);
      });
      let left = WRITES;
      const write = async (): Promise<void> => {
        while (left > 0) {
          left -= 1;
          const beganMs = performance.now();
          const metadata = { namespace, generateName: 'write-' };
          await cluster.create(configMaps, { metadata }).catch((error: unknown) => errors.push(String(error)));
          slowestMs = Math.max(slowestMs, performance.now() - beganMs);
        }
      };
      await Promise.all(Array.from({ length: WRITERS }, write));
    } finally {
      await stop();
    }
    process.stdout.write(`${WRITES} writes, the slowest took ${Math.round(slowestMs)} ms\n`);
    expect(errors).toEqual([]);
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200);
  });
});
