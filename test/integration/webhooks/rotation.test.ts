import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { type KubernetesObject, messageOf, resource, resourcePath } from '../../../src/core/index.ts';
import { BUNDLE_KINDS } from '../../../src/gateway/certificates/ca-bundles.ts';
import { ROTATE_ANNOTATION, SECRETS } from '../../../src/gateway/certificates/certificate-secret.ts';
import { GatewayCertificates } from '../../../src/gateway/certificates/gateway-certificates.ts';
import type { LeaderSettings } from '../../harness/certificate-leader.ts';
import { Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { TestProcess } from '../../harness/process.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { ReviewServer } from '../../harness/review-server.ts';
import { Started } from '../../harness/started.ts';

const validating = BUNDLE_KINDS[0] ?? resource('', '');
const REVIEWS_PER_SECOND = 200;
/**
 * For a busy machine, where the apiserver and a gateway learn of a change after seconds. An authority is due at 30 s.
 */
const TIMES = { authorityMs: 45_000, certificateMs: 42_000, settleMs: 4000, retireMs: 6000, pollMs: 200 };
/** Under way at most. More would only wait on a machine that is too slow for the rate. */
const AT_ONCE = 50;

const started = new Started();
const namespace = uniqueName('rotation');
const secret = { namespace, name: 'webhooks' };
let cluster: Cluster;
let server: ReviewServer;
let settings: LeaderSettings;
/** What the server serves from: it never leads. */
let follower: GatewayCertificates;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  server = await started.open(new ReviewServer());
  settings = { secret, address: { url: server.url }, times: TIMES };
  // Its reads must not wait behind the load.
  const reader = await Cluster.connect(inject('kubeconfig'));
  started.add(() => reader.close());
  follower = new GatewayCertificates({
    ...settings,
    runtime: quietRuntime(),
    client: reader.client,
    leads: () => false,
  });
  const stop = new AbortController();
  const following = follower.run(stop.signal);
  started.add(async () => {
    stop.abort();
    await following;
  });
  started.add(() => cluster.delete(validating, { name: namespace }).catch(() => {}));
});
afterAll(() => started.stop());

function startLeader(): TestProcess {
  const env = { KUBECONFIG: inject('kubeconfig') };
  const leader = new TestProcess('test/harness/certificate-leader.ts', [JSON.stringify(settings)], env);
  started.add(() => leader.kill());
  return leader;
}

const step = (leader: TestProcess, name: string) => leader.line((line) => line['step'] === name);

async function bundles(): Promise<string[]> {
  const found = (await cluster.get(validating, { name: namespace })) as
    (KubernetesObject & { webhooks: { clientConfig: { caBundle?: string } }[] }) | undefined;
  const text = Buffer.from(found?.webhooks[0]?.clientConfig.caBundle ?? '', 'base64').toString();
  return text.match(/-----BEGIN[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
}

const askForRotation = () =>
  cluster.patch(SECRETS, secret, { metadata: { annotations: { [ROTATE_ANNOTATION]: 'now' } } });

/** Creates ConfigMaps in dry runs, each of which is reviewed, at a steady rate. */
class Load {
  readonly failures: string[] = [];
  sent = 0;
  readonly #pending = new Set<Promise<void>>();

  async run(signal: AbortSignal): Promise<void> {
    const startedMs = performance.now();
    while (!signal.aborted) {
      const due = ((performance.now() - startedMs) / 1000) * REVIEWS_PER_SECOND;
      while (this.sent < due && this.#pending.size < AT_ONCE) this.#send();
      await sleep(5);
    }
    await Promise.all(this.#pending);
  }

  #send(): void {
    this.sent += 1;
    const sending = this.#create(`a-${this.sent}`).finally(() => this.#pending.delete(sending));
    this.#pending.add(sending);
  }

  async #create(name: string): Promise<void> {
    const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name } };
    const path = resourcePath(configMaps, { namespace });
    try {
      await cluster.client.json({ method: 'POST', path, query: { dryRun: 'All' }, body });
    } catch (error) {
      this.failures.push(messageOf(error));
    }
  }
}

it('two rotations of the CA under 200 reviews a second, one with a leader that is killed, fail no review', async () => {
  let leader = startLeader();
  await follower.ready;
  server.serve(follower);
  const service = { url: `${server.url}/webhooks/shop.greeting/names` };
  await cluster.create(validating, {
    metadata: { name: namespace, labels: { 'levelhook.dev/inject-ca': 'true' } },
    webhooks: [
      {
        name: 'names.greeting.shop.levelhook.dev',
        clientConfig: service,
        rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        failurePolicy: 'Fail',
        sideEffects: 'None',
        timeoutSeconds: 30,
        admissionReviewVersions: ['v1'],
      },
    ],
  });
  const authorities = new Set<string>();
  await eventually(async () => {
    const found = await bundles();
    expect(found).toHaveLength(1);
    for (const each of found) authorities.add(each);
  });
  const [original] = authorities;
  // The apiserver has learnt of the webhook and of its bundle.
  const probe = new Load();
  await eventually(async () => {
    const reviewed = server.reviews;
    probe.failures.length = 0;
    const over = new AbortController();
    const running = probe.run(over.signal);
    await sleep(100);
    over.abort();
    await running;
    expect(probe.failures).toEqual([]);
    expect(server.reviews).toBeGreaterThan(reviewed);
  });

  const over = new AbortController();
  const load = new Load();
  const startedMs = performance.now();
  const reviewedBefore = server.reviews;
  const running = load.run(over.signal);
  await askForRotation();
  await step(leader, 'announce');
  await leader.kill('SIGKILL');
  expect(await step(leader, 'serve').catch(() => 'killed')).toBe('killed');
  leader = startLeader();
  await step(leader, 'serve');
  await step(leader, 'retire');
  await eventually(async () => expect(await bundles()).toHaveLength(1));
  for (const each of await bundles()) authorities.add(each);
  // The second one comes by itself, when the new authority is due.
  const seen = leader.lines.length;
  const again = (name: string) =>
    eventually(async () => expect(leader.lines.slice(seen).some((line) => line['step'] === name)).toBe(true));
  await again('announce');
  await again('serve');
  await again('retire');
  await eventually(async () => {
    const last = await bundles();
    expect(last).toHaveLength(1);
    expect(authorities).not.toContain(last[0]);
    for (const each of last) authorities.add(each);
  });
  // New connections, with the old authority gone.
  await sleep(2000);
  over.abort();
  await running;

  const seconds = (performance.now() - startedMs) / 1000;
  const reviews = server.reviews - reviewedBefore;
  const connections = [...server.handshakes.values()];
  process.stdout.write(
    `${reviews} reviews in ${seconds.toFixed(0)} s, ${(reviews / seconds).toFixed(0)} a second; ` +
      `${connections.join(', ')} connections of ${connections.length} certificates\n`,
  );
  expect(load.failures).toEqual([]);
  expect(reviews).toBe(load.sent);
  expect(reviews).toBeGreaterThan(2000);
  expect(connections.length).toBeGreaterThanOrEqual(3);
  for (const each of connections) expect(each).toBeGreaterThan(10);
  expect(authorities.size).toBe(3);
  expect(await bundles()).not.toContain(original);
}, 240_000);
