import { expect } from 'vitest';
import type { KubernetesObject } from '../../src/core/index.ts';
import { silentLogger, silentMetrics } from '../../src/core/index.ts';
import { isIssuedBy } from '../../src/gateway/certificates/authority.ts';
import { BUNDLE_KINDS } from '../../src/gateway/certificates/ca-bundles.ts';
import { ROTATE_ANNOTATION, SECRETS } from '../../src/gateway/certificates/certificate-secret.ts';
import { GatewayCertificates } from '../../src/gateway/certificates/gateway-certificates.ts';
import { decodeCertificates } from '../../src/gateway/certificates/stored-certificates.ts';
import { MemoryApiserver } from '../../src/testing/reconciler/index.ts';
import { type memoryClient, type Network } from './memory-client.ts';
import { VirtualClock } from './test-clock.ts';

const SETTLE_MS = 100_000;
const RETIRE_MS = 200_000;
const TIMES = { authorityMs: 7_200_000, certificateMs: 2_400_000, settleMs: SETTLE_MS, retireMs: RETIRE_MS };
const SECRET = { namespace: 'tools', name: 'webhooks' };
const SERVICE = { namespace: 'tools', name: 'levelhook' };
const GATEWAYS = 3;
/** The apiserver may use a bundle for so long after it was replaced: less than `SETTLE_MS`. */
const STALE_MS = 90_000;
/** A gateway that lives has read the Secret in the last of these: less than `RETIRE_MS`. */
const READ_MS = 150_000;

/** Of an entry that is another gateway's. */
const FOREIGN = Buffer.from('foreign').toString('base64');

interface Gateway {
  readonly certificates: GatewayCertificates;
  /** Requests that wait to arrive, or whose answers wait to be delivered; by what lets them, their verbs. */
  readonly waiting: Map<() => void, string>;
  ticking: boolean;
  /** When a tick began that has ended. */
  readAtMs: number;
}

type Configured = KubernetesObject & {
  webhooks?: { name: string; clientConfig: { service: object; caBundle?: string } }[];
  spec?: { conversion: { webhook: { clientConfig: { service: object; caBundle?: string } } } };
};

/** Gateways of one deployment, an apiserver in memory, and a network and a machine that do what chance wants. */
export class RotationWorld {
  rotations = 0;
  kills = 0;
  readonly #random: () => number;
  readonly #apiserver = new MemoryApiserver({ resources: BUNDLE_KINDS });
  readonly #clock = new VirtualClock();
  readonly #client: typeof memoryClient;
  readonly #gateways: Gateway[] = [];
  readonly #frozen: Gateway[] = [];
  /** By object: the bundles that it has had, and until when. */
  readonly #bundles = new Map<string, { readonly bundle: string; untilMs: number }[]>();
  readonly #verified = new Map<string, boolean>();
  #authority = '';
  #configured = 0;

  constructor(random: () => number, client: typeof memoryClient) {
    this.#random = random;
    this.#client = client;
  }

  async run(events: number): Promise<void> {
    for (let at = 0; at < 3; at += 1) this.#configure();
    for (let at = 0; at < GATEWAYS; at += 1) this.#gateways.push(this.#start(at));
    // The first certificates come undisturbed: until then no review can succeed.
    for (const each of this.#gateways) await this.#readNow(each);
    for (let at = 0; at < events; at += 1) {
      await this.#happen();
      this.#check();
    }
  }

  async #happen(): Promise<void> {
    const gateway = this.#pick(this.#gateways);
    const chance = this.#random();
    if (chance < 0.002) return this.#configure();
    if (chance < 0.006) return this.#askForRotation();
    if (chance < 0.008) return this.#overwrite();
    const writing = [...gateway.waiting.values()].some((verb) => verb === 'PUT' || verb === 'PATCH');
    if (chance < (writing ? 0.05 : 0.014)) return this.#kill(gateway);
    if (chance < 0.024) return this.#thaw();
    if (chance < 0.12) return this.#pass(this.#random() * 30_000);
    const waiting = [...gateway.waiting.keys()];
    if (waiting.length > 0) this.#pick(waiting)();
    else if (!gateway.ticking) this.#tick(gateway);
    await this.#quiet();
  }

  /** Time passes, and each gateway that lives has read the Secret in time. */
  async #pass(ms: number): Promise<void> {
    this.#clock.jump(ms);
    for (const each of this.#gateways) {
      if (this.#clock.now() - each.readAtMs > READ_MS - 30_000) await this.#readNow(each);
    }
  }

  /** Ends the tick that it is in, and one from beginning to end. */
  async #readNow(gateway: Gateway): Promise<void> {
    const before = this.#clock.now();
    do {
      if (!gateway.ticking) this.#tick(gateway);
      await this.#quiet();
      while (gateway.ticking) {
        for (const go of gateway.waiting.keys()) go();
        await this.#quiet();
      }
    } while (gateway.readAtMs < before);
  }

  #tick(gateway: Gateway): void {
    const startedMs = this.#clock.now();
    gateway.ticking = true;
    gateway.certificates
      .tick()
      .then(() => (gateway.readAtMs = startedMs))
      // Conflicts and lost answers: the next tick tries again.
      .catch(() => {})
      .finally(() => (gateway.ticking = false));
  }

  /** One always leads, and others take themselves for the leader, too. */
  #start(at: number): Gateway {
    const leads = at === 0 || this.#random() < 0.7;
    const waiting: Gateway['waiting'] = new Map();
    return {
      certificates: new GatewayCertificates({
        runtime: { clock: this.#clock, logger: silentLogger, metrics: silentMetrics },
        client: this.#client(this.#apiserver, this.#network(waiting)),
        secret: SECRET,
        address: { service: SERVICE },
        leads: () => leads,
        times: TIMES,
      }),
      waiting,
      ticking: false,
      readAtMs: this.#clock.now(),
    };
  }

  /** A request waits until chance lets it arrive, and its answer until chance delivers it. One in fifty gets none. */
  #network(waiting: Gateway['waiting']): Network {
    const turn = (verb: string): Promise<void> =>
      new Promise((resolve) => {
        const go = (): void => {
          waiting.delete(go);
          resolve();
        };
        waiting.set(go, verb);
      });
    return async (arrive, { method = 'GET' }) => {
      await turn(method);
      if (this.#random() < 0.01) throw new Error('the request was lost');
      const answer = await arrive().then(
        (value) => () => value,
        (error: unknown) => () => {
          throw error as Error;
        },
      );
      this.#observe();
      if (this.#random() < 0.5) await turn('answer');
      if (this.#random() < 0.01) throw new Error('the answer was lost');
      return answer();
    };
  }

  /**
   * Another process takes its place. It may only stand still, and go on after minutes: it serves nothing then, but ends
   * the tick that it was in.
   */
  #kill(gateway: Gateway): void {
    this.kills += 1;
    const at = this.#gateways.indexOf(gateway);
    this.#gateways[at] = this.#start(at);
    this.#frozen.push(gateway);
  }

  /** One answer reaches a gateway that stood still, or one request of it the apiserver. */
  async #thaw(): Promise<void> {
    const frozen = this.#frozen.filter(({ waiting }) => waiting.size > 0);
    if (frozen.length === 0) return;
    this.#pick([...this.#pick(frozen).waiting.keys()])();
    await this.#quiet();
  }

  #configure(): void {
    const name = `c${(this.#configured += 1)}`;
    const metadata = { name, labels: { 'levelhook.dev/inject-ca': 'true' } };
    const clientConfig = { service: { ...SERVICE, path: `/webhooks/shop.greeting/${name}` } };
    const foreign = { service: { namespace: 'other', name: 'levelhook', path: '/webhooks/a/b' }, caBundle: FOREIGN };
    const kind = this.#pick(BUNDLE_KINDS);
    const content =
      kind.kind === 'CustomResourceDefinition'
        ? { spec: { conversion: { webhook: { clientConfig } } } }
        : {
            webhooks: [
              { name: 'a', clientConfig: foreign },
              { name: 'b', clientConfig },
            ],
          };
    this.#apiserver.put({ apiVersion: kind.apiVersion, kind: kind.kind, metadata, ...content });
  }

  /** Another client writes a configuration, with the bundle that it had or without one. */
  #overwrite(): void {
    const found = this.#pick(this.#apiserver.objects(this.#pick(BUNDLE_KINDS)) as Configured[]);
    if (!found) return;
    if (this.#random() < 0.5) delete clientConfigOf(found)?.caBundle;
    const annotations = { written: String(this.#random()) };
    this.#apiserver.put({ ...found, metadata: { ...found.metadata, annotations } });
    this.#observe();
  }

  #askForRotation(): void {
    const secret = this.#apiserver.object(SECRETS, SECRET);
    if (!secret) return;
    const annotations = { ...secret.metadata.annotations, [ROTATE_ANNOTATION]: 'now' };
    this.#apiserver.put({ ...secret, metadata: { ...secret.metadata, annotations } });
  }

  /** Remembers what bundles there are, and since when others are replaced. */
  #observe(): void {
    const nowMs = this.#clock.now();
    for (const kind of BUNDLE_KINDS) {
      for (const object of this.#apiserver.objects(kind) as Configured[]) {
        const bundle = clientConfigOf(object)?.caBundle;
        if (object.webhooks) expect(object.webhooks[0]?.clientConfig.caBundle).toBe(FOREIGN);
        const past = this.#bundles.get(object.metadata.name) ?? [];
        const last = past.at(-1);
        if (last?.untilMs === Infinity && last.bundle === bundle) continue;
        if (last?.untilMs === Infinity) last.untilMs = nowMs;
        if (bundle !== undefined) past.push({ bundle, untilMs: Infinity });
        this.#bundles.set(object.metadata.name, past);
      }
    }
    const stored = decodeCertificates(this.#apiserver.object(SECRETS, SECRET)?.data);
    const authority = stored?.authorities.length === 1 ? stored.authorities[0] : this.#authority;
    if (authority !== this.#authority && this.#authority !== '') this.rotations += 1;
    this.#authority = authority;
  }

  #check(): void {
    this.#observe();
    for (const gateway of this.#gateways) {
      const served = servedBy(gateway);
      if (served === undefined) continue;
      for (const [name, past] of this.#bundles) {
        for (const { bundle, untilMs } of past) {
          if (untilMs < this.#clock.now() - STALE_MS) continue;
          expect(this.#verifies(served, bundle), `a served certificate is of no authority in ${name}`).toBe(true);
        }
      }
    }
  }

  #verifies(cert: string, bundle: string): boolean {
    const id = `${cert} ${bundle}`;
    const known = this.#verified.get(id);
    if (known !== undefined) return known;
    const text = Buffer.from(bundle, 'base64').toString('utf8');
    const pems = text.match(/-----BEGIN[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
    const verified = pems.some((each) => isIssuedBy(cert, each));
    this.#verified.set(id, verified);
    return verified;
  }

  /** Waits until every gateway waits for the network, or has nothing to do. */
  async #quiet(): Promise<void> {
    let turns = 0;
    do {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    } while (turns < 3 || this.#gateways.some(({ ticking, waiting }) => ticking && waiting.size === 0));
  }

  #pick<T>(of: readonly T[]): T {
    return of[Math.floor(this.#random() * of.length)] as T;
  }
}

function clientConfigOf({ spec, webhooks }: Configured) {
  return spec?.conversion.webhook.clientConfig ?? webhooks?.[1]?.clientConfig;
}

function servedBy({ certificates }: Gateway): string | undefined {
  try {
    return certificates.current().cert;
  } catch {
    return undefined;
  }
}
