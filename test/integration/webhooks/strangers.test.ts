import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request as ask } from 'undici';
import { describe, expect } from 'vitest';
import type { AdmissionDescription } from '../../../src/contract/index.ts';
import { createCertificates } from '../../../src/testing/control-plane/certificates.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { ReviewFunction } from '../../harness/review-function.ts';
import { Stranger } from '../../harness/stranger.ts';
import {
  configureWebhook,
  reviewServing,
  type ReviewServing,
  reviewsUrl,
} from '../../harness/webhook-configurations.ts';
import { it, type World } from '../../harness/world.ts';

const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const rule: AdmissionDescription = { ...configMap, type: 'validating', name: 'rule', operations: ['CREATE'] };
const STRANGER = '127.0.0.2';

let serving: ReviewServing;

it.beforeAll(async ({ world: { setting, started } }) => {
  serving = await reviewServing(started, setting.kubeconfig);
});

/** A function with one webhook behind a gateway of its own, and a stranger in front of it. */
async function guarded({ setting, started }: World, variables: Record<string, string>) {
  const own = createSetting(setting);
  const fn = await started.open(new ReviewFunction({ name: 'guard', for: configMap, webhooks: [rule] }, own.secret));
  const gateway = started.keep(await openGateway(own, [fn.url], variables));
  const url = `${await reviewsUrl(gateway)}/webhooks/guard`;
  const stranger = new Stranger(STRANGER, `${url}/rule`);
  started.add(() => stranger.stop());
  // The controller waits until its cache is complete.
  await eventually(async () => expect((await stranger.review(probe, serving.client)).status).toBe(200));
  fn.reviews.length = 0;
  return { fn, gateway, url, stranger };
}

const probe = { namespace: 'default', name: 'probe' };

describe('a gateway that knows no apiserver', () => {
  it('tells the function that anyone may have made a review up, and gives it no cache', async ({ world }) => {
    const { fn, stranger } = await guarded(world, serving.anonymous);
    for (const client of [{}, serving.client]) expect((await stranger.review(probe, client)).status).toBe(200);
    expect(fn.reviews).toHaveLength(2);
    for (const { authenticated, cache, cacheAgeSeconds } of fn.reviews) {
      expect({ authenticated, cache, cacheAgeSeconds }).toEqual({
        authenticated: false,
        cache: { views: {} },
        cacheAgeSeconds: {},
      });
    }
  });

  it('writes no line about clients that hang up in their reviews, and counts no fault of its own', async ({
    world,
  }) => {
    const { gateway, stranger } = await guarded(world, serving.anonymous);
    const refused = async (): Promise<Record<string, number>> => {
      const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
      const counts = metrics.matchAll(
        /^controller_runtime_webhook_requests_total{webhook="[^"]*[/]rule",code="([45][0-9]+)"} ([0-9]+)$/gm,
      );
      return Object.fromEntries([...counts].map(([, code = '', count]) => [code, Number(count)]));
    };
    const [before, lines] = [await refused(), gateway.process.lines.length];
    for (let at = 0; at < 100; at += 1) await stranger.breakOff();
    await eventually(async () => expect(await refused()).toEqual({ ...before, 400: 100 }));
    expect(gateway.process.lines.slice(lines).filter(({ msg }) => String(msg).includes('review'))).toEqual([]);
  });
});

describe('a gateway that knows the apiserver', () => {
  it('refuses the reviews of all others, with the remedy, and gives the cache to those of the apiserver', async ({
    world,
  }) => {
    const { cluster, namespace, started } = world;
    const { fn, stranger, url } = await guarded(world, serving.settings);
    // Another authority has signed this certificate.
    const other = await reviewServing(started, join(await otherPki(world), 'kubeconfig'));
    // TLS 1.3 resumes a session without asking for the certificate again.
    for (const client of [{}, other.client, { session: await stranger.session() }]) {
      const { status, body } = await stranger.review(probe, client);
      expect(status).toBe(401);
      expect(body).toMatch(/without a client certificate that the gateway knows.*LEVELHOOK_WEBHOOK_CLIENT_CA_FILE/);
    }
    expect(fn.reviews).toEqual([]);
    const options = { cluster, started, ca: serving.ca, namespace, name: namespace };
    await configureWebhook(options, url, { ...rule, rule: ['', 'v1', 'configmaps'] });
    await eventually(async () => {
      await cluster.create(configMaps, { metadata: { namespace, generateName: 'write-' } });
      expect(fn.reviews).not.toEqual([]);
    });
    expect(fn.reviews[0]).toMatchObject({ authenticated: true });
    expect(fn.reviews[0]?.cache.token).toMatch(/^ey/);
  });

  it('asks for certificates of other authorities when the file has others, on kept connections too', async ({
    world,
  }) => {
    const { started } = world;
    const file = join(await started.directory(), 'ca.crt');
    await copyFile(serving.settings['LEVELHOOK_WEBHOOK_CLIENT_CA_FILE'] ?? '', file);
    const { url } = await guarded(world, { ...serving.settings, LEVELHOOK_WEBHOOK_CLIENT_CA_FILE: file });
    const kept = new Agent({ connections: 1, connect: { ca: serving.ca, ...serving.client } });
    started.add(() => kept.destroy());
    const review = async (): Promise<number> => {
      const { statusCode, body } = await ask(`${url}/rule`, {
        dispatcher: kept,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      });
      await body.dump();
      return statusCode;
    };
    // A client that is known gets as far as the body.
    expect(await review()).toBe(400);
    const pki = join(await otherPki(world), 'pki');
    await copyFile(join(pki, 'front-proxy-ca.crt'), file);
    await eventually(async () => expect(await review()).toBe(401));
  });
});

/** The directory of a control plane that there is not, with the keys of one. */
async function otherPki({ started }: World): Promise<string> {
  const directory = await started.directory();
  await createCertificates(join(directory, 'pki'));
  return directory;
}
