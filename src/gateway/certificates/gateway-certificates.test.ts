import { beforeEach, describe, expect, it } from 'vitest';
import { MemoryApiserver, memoryClient } from '../../../test/harness/memory-client.ts';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import { ApiError, type KubernetesObject, silentLogger, silentMetrics } from '../../core/index.ts';
import { isFor } from './authority.ts';
import { BUNDLE_KINDS, type WebhookAddress } from './ca-bundles.ts';
import { CertificateSecret, ROTATE_ANNOTATION, SECRETS } from './certificate-secret.ts';
import { GatewayCertificates } from './gateway-certificates.ts';
import { newCertificates } from './rotation.ts';

const KEY = { namespace: 'tools', name: 'webhooks' };
const SERVICE = { namespace: 'tools', name: 'levelhook' };
const LABELS = { 'levelhook.dev/inject-ca': 'true' };
const [validating, mutating, definitions] = BUNDLE_KINDS as [KindOf, KindOf, KindOf];
type KindOf = (typeof BUNDLE_KINDS)[number];
const DAY_MS = 86_400_000;
const times = { authorityMs: 365 * DAY_MS, certificateMs: 90 * DAY_MS, settleMs: 1000, retireMs: 2000, pollMs: 100 };

let client: ReturnType<typeof memoryClient>;
let apiserver: MemoryApiserver;
let clock: InstantClock;

beforeEach(() => {
  apiserver = new MemoryApiserver({ resources: BUNDLE_KINDS });
  client = memoryClient(apiserver);
  clock = new InstantClock();
});

function gateway({
  address = { service: SERVICE },
  leads = true,
}: { readonly address?: WebhookAddress; readonly leads?: boolean } = {}): GatewayCertificates {
  const runtime = { clock, logger: silentLogger, metrics: silentMetrics };
  return new GatewayCertificates({ runtime, client, secret: KEY, address, leads: () => leads, times });
}

/** Looks until nothing is left to do now. */
async function settle(certificates: GatewayCertificates): Promise<void> {
  while (await certificates.tick()) {
    // Each look has one step.
  }
}

async function rotate(certificates: GatewayCertificates): Promise<void> {
  for (let at = 0; at < 6; at += 1) {
    await settle(certificates);
    clock.advance(times.retireMs);
  }
}

const secret = () =>
  apiserver.object(SECRETS, KEY) as (KubernetesObject & { data: Record<string, string> }) | undefined;
const bundle = (): string => secret()?.data['ca.crt'] ?? '';
const put = (kind: KindOf, name: string, content: object, labels: Record<string, string> = LABELS): void =>
  apiserver.put({ apiVersion: kind.apiVersion, kind: kind.kind, metadata: { name, labels }, ...content });
const entry = (clientConfig: object) => ({ name: 'a', clientConfig });

interface Found {
  readonly webhooks?: { readonly clientConfig: { readonly caBundle?: string } }[];
  readonly spec?: {
    readonly conversion: { readonly webhook: { readonly clientConfig: { readonly caBundle?: string } } };
  };
}
const bundlesOf = (kind: KindOf, name: string): (string | undefined)[] => {
  const { spec, webhooks = [] } = apiserver.object(kind, { name }) as Found;
  const all = spec ? [spec.conversion.webhook] : webhooks;
  return all.map(({ clientConfig }) => clientConfig.caBundle);
};

describe('the certificates of a gateway', () => {
  it('are made by the leader, and served by all', async () => {
    const follower = gateway({ leads: false });
    await follower.tick();
    // It is ready all the same: the gateway that leads may be of a setting without certificates.
    expect(follower.awaitsLeader).toBe(true);
    expect(() => follower.current()).toThrow('there is no certificate for webhooks yet');
    expect(secret()).toBeUndefined();
    const leader = gateway();
    await leader.tick();
    await leader.ready;
    expect(secret()).toMatchObject({ type: 'kubernetes.io/tls' });
    await follower.tick();
    await follower.ready;
    expect([follower.awaitsLeader, leader.awaitsLeader]).toEqual([false, false]);
    expect(follower.current()).toEqual(leader.current());
    expect(isFor(leader.current().cert, ['levelhook.tools.svc', 'levelhook.tools.svc.cluster.local'])).toBe(true);
  });

  it('name the host of a URL, and are renewed when it changes', async () => {
    const first = gateway({ address: { url: 'https://127.0.0.1:9443' } });
    await settle(first);
    expect(isFor(first.current().cert, ['127.0.0.1'])).toBe(true);
    const authority = bundle();
    const second = gateway({ address: { url: 'https://[::1]:9443' } });
    await settle(second);
    expect(isFor(second.current().cert, ['::1'])).toBe(true);
    expect(bundle()).toBe(authority);
  });

  it('tell those who listen that they are others now, until they are told not to', async () => {
    const [leader, follower] = [gateway(), gateway({ leads: false })];
    await settle(leader);
    await follower.tick();
    let renewals = 0;
    const stop = follower.onRenewed(() => (renewals += 1));
    clock.advance(61 * DAY_MS);
    await settle(leader);
    await follower.tick();
    await follower.tick();
    expect(renewals).toBe(1);
    expect(follower.current()).toEqual(leader.current());
    stop();
    clock.advance(61 * DAY_MS);
    await settle(leader);
    await follower.tick();
    expect(renewals).toBe(1);
  });

  it('are rotated when the annotation asks for it, once', async () => {
    const leader = gateway();
    await settle(leader);
    const [authority, served] = [bundle(), leader.current()];
    const found = secret();
    if (!found) throw new Error('there is no Secret');
    apiserver.put({ ...found, metadata: { ...found.metadata, annotations: { [ROTATE_ANNOTATION]: '', mine: 'a' } } });
    await leader.tick();
    expect(secret()?.metadata.annotations).toEqual({ mine: 'a' });
    await rotate(leader);
    expect(bundle()).not.toBe(authority);
    expect(leader.current()).not.toEqual(served);
    const rotated = bundle();
    await rotate(leader);
    expect(bundle()).toBe(rotated);
  });

  it('of a deleted Secret go on, and are rotated', async () => {
    const leader = gateway();
    await settle(leader);
    const [authority, served] = [bundle(), leader.current()];
    apiserver.remove(SECRETS, KEY);
    await leader.tick();
    expect(leader.current()).toEqual(served);
    expect(bundle()).toBe(authority);
    await rotate(leader);
    expect(leader.current()).not.toEqual(served);
    expect(bundle()).not.toBe(authority);
  });

  it('never overwrite a Secret that has something else', async () => {
    apiserver.put({ apiVersion: 'v1', kind: 'Secret', metadata: KEY, data: { password: 'YQ==' } });
    await expect(gateway().tick()).rejects.toThrow('the Secret tools/webhooks has no certificates that can be used');
    expect(secret()?.data).toEqual({ password: 'YQ==' });
    // An empty one was made for them.
    apiserver.put({ apiVersion: 'v1', kind: 'Secret', metadata: KEY });
    await settle(gateway());
    expect(Object.keys(secret()?.data ?? {})).toContain('tls.crt');
  });

  it('are written over the version that was read, and no other', async () => {
    await settle(gateway());
    const store = new CertificateSecret(client, KEY);
    const [first, second] = [await store.read(), await store.read()];
    if (!first?.stored || !second) throw new Error('there is no Secret');
    const made = await newCertificates({ names: ['a'], nowMs: clock.wallNow(), times });
    await store.replace(first, made, { begun: false });
    const refused = await store.replace(second, first.stored, { begun: false }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code: 409 });
    await expect(store.create(made, false)).rejects.toMatchObject({ code: 409 });
  });
});

describe('the bundles', () => {
  it("are those of the gateway's own entries, in what has the label", async () => {
    const own = { service: { ...SERVICE, port: 443, path: '/webhooks/shop.greeting/a' } };
    const others = [
      { service: { ...SERVICE, namespace: 'other', path: '/webhooks/a/b' } },
      { service: { ...SERVICE, path: '/other' } },
      { service: SERVICE },
      { url: 'https://127.0.0.1:9443/webhooks/a/b' },
      { url: 'https://example.com/webhooks/a/b', caBundle: 'Zm9yZWlnbg==' },
    ];
    put(validating, 'v', { webhooks: [entry(own), ...others.map(entry), entry(own)] });
    put(mutating, 'm', { webhooks: [entry(own)] });
    put(definitions, 'd', { spec: { conversion: { webhook: { clientConfig: own } } } });
    put(definitions, 'none', { spec: { conversion: { strategy: 'None' } } });
    put(mutating, 'unlabelled', { webhooks: [entry(own)] }, {});
    await settle(gateway());
    const foreign = [undefined, undefined, undefined, undefined, 'Zm9yZWlnbg=='];
    expect(bundlesOf(validating, 'v')).toEqual([bundle(), ...foreign, bundle()]);
    expect(bundlesOf(mutating, 'm')).toEqual([bundle()]);
    expect(bundlesOf(definitions, 'd')).toEqual([bundle()]);
    expect(bundlesOf(mutating, 'unlabelled')).toEqual([undefined]);
  });

  it('belong to a URL of the gateway, and not to one that only begins like it', async () => {
    put(validating, 'v', {
      webhooks: [
        entry({ url: 'https://127.0.0.1:944/webhooks/a/b' }),
        entry({ url: 'https://127.0.0.1:9443/webhooks/a/b' }),
        entry({ service: { ...SERVICE, path: '/webhooks/a/b' } }),
      ],
    });
    await settle(gateway({ address: { url: 'https://127.0.0.1:944' } }));
    expect(bundlesOf(validating, 'v')).toEqual([bundle(), undefined, undefined]);
  });

  it('that cannot be written keep no certificate from being renewed, and are not written again at once', async () => {
    const leader = gateway();
    await settle(leader);
    put(validating, 'refused', { webhooks: [entry({ service: { ...SERVICE, path: '/webhooks/a/b' } })] });
    const usual = client.json.bind(client);
    client.json = async (request) => {
      if (request.method === 'PATCH') throw new ApiError({ code: 403, message: 'no' });
      return usual(request);
    };
    const before = leader.current();
    expect(await leader.tick()).toBe(false);
    clock.advance((times.certificateMs * 2) / 3 + DAY_MS);
    await leader.tick();
    expect(leader.current().cert).not.toBe(before.cert);
  });

  it('that cannot be written keep a rotation from going on, and no other bundle from being written', async () => {
    const leader = gateway();
    const own = entry({ service: { ...SERVICE, path: '/webhooks/a/b' } });
    put(validating, 'refused', { webhooks: [own] });
    put(validating, 'written', { webhooks: [own] });
    await settle(leader);
    const [served, before] = [leader.current(), bundle()];
    const found = secret();
    if (!found) throw new Error('there is no Secret');
    apiserver.put({ ...found, metadata: { ...found.metadata, annotations: { [ROTATE_ANNOTATION]: '' } } });
    const usual = client.json.bind(client);
    let refuses = true;
    client.json = async (request) => {
      if (refuses && request.method === 'PATCH' && request.path.endsWith('/refused')) {
        throw new ApiError({ code: 403, message: 'no' });
      }
      return usual(request);
    };
    await settle(leader);
    expect(leader.warning).toBeUndefined();
    for (let at = 0; at < 20; at += 1) {
      await leader.tick();
      clock.advance(times.settleMs);
    }
    expect(leader.current()).toEqual(served);
    expect(leader.warning).toMatch(
      /waits for the caBundle of ValidatingWebhookConfiguration refused \(.*no.*\): let the/,
    );
    expect(bundlesOf(validating, 'refused')).toEqual([before]);
    expect(bundlesOf(validating, 'written')).toEqual([bundle()]);
    refuses = false;
    await rotate(leader);
    expect(leader.warning).toBeUndefined();
    expect(leader.current()).not.toEqual(served);
    expect(bundlesOf(validating, 'refused')).toEqual([bundle()]);
  });

  it('that cannot be written do not keep the other webhooks from a certificate for longer than the old one lasts', async () => {
    const leader = gateway();
    const own = entry({ service: { ...SERVICE, path: '/webhooks/a/b' } });
    put(validating, 'refused', { webhooks: [own] });
    await settle(leader);
    const served = leader.current();
    const usual = client.json.bind(client);
    client.json = async (request) => {
      if (request.method === 'PATCH') throw new ApiError({ code: 403, message: 'no' });
      return usual(request);
    };
    const found = secret();
    if (!found) throw new Error('there is no Secret');
    apiserver.put({ ...found, metadata: { ...found.metadata, annotations: { [ROTATE_ANNOTATION]: '' } } });
    await rotate(leader);
    expect(leader.current()).toEqual(served);
    expect(leader.warning).toContain('ValidatingWebhookConfiguration refused');
    clock.advance(times.certificateMs);
    await rotate(leader);
    expect(leader.current().cert).not.toBe(served.cert);
    expect(leader.warning).toBeUndefined();
  });

  it('that something else writes back keep a rotation from going on, and are named', async () => {
    const leader = gateway();
    const webhooks = [entry({ service: { ...SERVICE, path: '/webhooks/a/b' } })];
    put(mutating, 'by-gitops', { webhooks });
    await settle(leader);
    const found = secret();
    if (!found) throw new Error('there is no Secret');
    apiserver.put({ ...found, metadata: { ...found.metadata, annotations: { [ROTATE_ANNOTATION]: '' } } });
    for (let at = 0; at < 20; at += 1) {
      await settle(leader);
      clock.advance(times.settleMs / 2);
      put(mutating, 'by-gitops', { webhooks });
    }
    expect(leader.warning).toContain('MutatingWebhookConfiguration by-gitops (something else writes the old one back)');
  });
});
