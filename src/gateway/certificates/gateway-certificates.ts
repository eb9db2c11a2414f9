import { formatObjectKey, type Logger, messageOf, resourcePath, type Runtime } from '../../core/index.ts';
import type { CertificatePair } from '../../contract/node/certificate-files.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { ChangeWatch } from '../../ground/apiserver/change-watch.ts';
import { expiryOf } from './authority.ts';
import { BUNDLE_KINDS, BUNDLE_SELECTOR, CaBundles, type LackingBundle, type WebhookAddress } from './ca-bundles.ts';
import { CertificateSecret, type FoundSecret, type SecretKey, SECRETS } from './certificate-secret.ts';
import { INJECT_LABEL } from './inject-label.ts';
import {
  afterStep,
  newCertificates,
  nextStep,
  ROTATION_TIMES,
  type RotationState,
  type RotationTimes,
  stateOf,
} from './rotation.ts';
import type { ServingCertificate } from './serving-certificate.ts';
import { bundleOf, type StoredCertificates } from './stored-certificates.ts';

export interface GatewayCertificatesOptions {
  /** `now` must not be set while this runs: `systemClock`. Certificates have times of `wallNow`. */
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly client: Pick<ApiClient, 'json' | 'stream'>;
  readonly secret: SecretKey;
  readonly address: WebhookAddress;
  /** Only a leader writes. A gateway that wrongly takes itself for one does no harm. */
  readonly leads: () => boolean;
  /** The two lifetimes are settings. */
  readonly times: Pick<RotationTimes, 'authorityMs' | 'certificateMs'> & Partial<RotationTimes>;
}

/** Between two looks, however often a watch wakes it. */
const LEAST_GAP_MS = 100;
const WATCH_RETRY_MS = 5000;
const HINT = 'this cannot be watched: certificates and bundles are looked at in intervals only';

/**
 * The authority and the certificate of the gateway's webhooks, in a Secret that all gateways of a deployment serve
 * from. The leader makes them, renews each after two thirds of its lifetime, and writes the authority into the
 * `caBundle`s that ask for it.
 *
 * A rotation (`RotationState`) makes no review fail, because at each time every bundle that the apiserver may use has
 * the authority of every certificate that a gateway may serve:
 *
 * - A certificate of a new authority enters the Secret only after each bundle has had that authority for `settleMs`.
 * - The old authority leaves the bundles after such a certificate has been in the Secret for `retireMs`: by then each
 *   gateway has read it. Open connections stay open.
 * - The process that waits counts the wait from its own observations. So a new leader waits anew, and no time is
 *   compared between machines.
 *
 * Two leaders at once, or a leader that was frozen, do not break this. Each write is conditional on the version that
 * was read, and the bundles are listed before the Secret is read. If another gateway has written a bundle after the
 * list, its version has changed and the write fails. If it wrote the bundle before the list, the bundle is that of this
 * Secret or of an earlier one.
 *
 * If the Secret is deleted, the leader makes it again from the certificates that it serves, and rotates the authority.
 * Only a leader that has served nothing yet begins with a new authority at once; then reviews fail until each gateway
 * serves it.
 */
export class GatewayCertificates implements ServingCertificate {
  readonly #options: GatewayCertificatesOptions;
  readonly #times: RotationTimes;
  readonly #secret: CertificateSecret;
  readonly #bundles: CaBundles;
  readonly #names: readonly string[];
  readonly #ready = Promise.withResolvers<void>();
  readonly #listeners = new Set<() => void>();
  /** As last read or written. */
  #stored: StoredCertificates | undefined;
  #awaitsLeader = false;
  #state: { readonly is: RotationState; readonly bundle: string; readonly sinceMs: number } | undefined;
  /** The bundle that all have, as seen in a row of looks. */
  #bundled: { readonly bundle: string; readonly sinceMs: number } | undefined;
  /** At the last look that found any. */
  #lacking: readonly LackingBundle[] = [];
  #wake = new AbortController();
  #lastError = '';

  constructor(options: GatewayCertificatesOptions) {
    const { address, client, runtime, secret, times } = options;
    this.#options = options;
    this.#times = { ...ROTATION_TIMES, ...times };
    this.#secret = new CertificateSecret(client, secret);
    this.#bundles = new CaBundles(client, address, runtime.logger);
    this.#names = namesOf(address);
  }

  /** Resolves when there is a certificate: of a follower, when a leader has made it. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Why there is no certificate yet; undefined once there is one. */
  notReady(): string | undefined {
    if (this.#stored) return undefined;
    return `there is no certificate for webhooks yet${this.#lastError === '' ? '' : ` (${this.#lastError})`}`;
  }

  /**
   * Why a rotation of the authority does not go on, for people: some minutes after it should have. Only a gateway that
   * leads knows.
   */
  get warning(): string | undefined {
    const [first, ...others] = this.#lacking;
    const { settleMs, retireMs } = this.#times;
    const state = this.#state;
    if (!first || !this.#stored || state?.is !== 'announced') return undefined;
    if (this.#options.runtime.clock.now() - state.sinceMs <= settleMs + retireMs) return undefined;
    const { object, error = 'something else writes the old one back' } = first;
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    const expiry = new Date(expiryOf(this.#stored.serving.cert)).toISOString();
    return (
      `the rotation of the CA of webhooks waits for the caBundle of ${object}${more} (${error}): ` +
      `let the gateway write it, or remove the label ${INJECT_LABEL} there; ` +
      `at ${expiry} the rotation goes on without it, and its reviews fail`
    );
  }

  /** There is no certificate yet because another gateway leads, and has not made it: it may not have this setting. */
  get awaitsLeader(): boolean {
    return this.#awaitsLeader && this.#stored === undefined;
  }

  /** @throws Error before it is ready. */
  current(): CertificatePair {
    if (!this.#stored) throw new Error(this.notReady());
    return this.#stored.serving;
  }

  onRenewed(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Works until `signal` is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    const watching = this.#watches().map((watch) => watch.run(() => this.#wake.abort(), signal));
    while (!signal.aborted) {
      this.#wake = new AbortController();
      let changed = false;
      try {
        changed = await this.tick(signal);
        this.#lastError = '';
      } catch (error) {
        if (!signal.aborted) this.#report(messageOf(error), logger);
      }
      await clock.sleep(LEAST_GAP_MS, signal);
      if (!changed) await clock.sleep(this.#times.pollMs, AbortSignal.any([signal, this.#wake.signal]));
    }
    await Promise.all(watching);
  }

  /**
   * One look at the Secret and the bundles, and of a leader at most one step.
   * @returns whether it has changed something, so that another look is due.
   * @throws ApiError and errors of the transport; Error when the Secret has something else. The next look tries again.
   */
  async tick(signal?: AbortSignal): Promise<boolean> {
    const { clock } = this.#options.runtime;
    const leads = this.#options.leads();
    const lookedAtMs = clock.now();
    // Before the Secret: see the class.
    const bundles = leads ? await this.#bundles.list(signal) : [];
    const listedAtMs = clock.now();
    const found = await this.#secret.read(signal);
    this.#awaitsLeader = !leads;
    if (found?.stored) this.#adopt(found.stored);
    if (!leads) this.#lacking = [];
    if (!leads) return false;
    if (!found?.stored) {
      await this.#make(found, signal);
      return true;
    }
    const { stored } = found;
    const bundle = bundleOf(stored);
    const { lacking, written } = await this.#bundles.write(bundles, bundle, signal);
    // Those of an earlier look stay: something may write the old bundle back again and again.
    if (lacking.length > 0) this.#lacking = lacking;
    if (written > 0) {
      this.#bundled = undefined;
      return true;
    }
    // A bundle that cannot be written delays a new CA, but not a new certificate of the present CA.
    if (lacking.length > 0) this.#bundled = undefined;
    else if (this.#bundled?.bundle !== bundle) this.#bundled = { bundle, sinceMs: listedAtMs };
    return this.#step(found, stored, { bundledForMs: this.#bundled && lookedAtMs - this.#bundled.sinceMs, signal });
  }

  async #step(
    found: FoundSecret,
    stored: StoredCertificates,
    { bundledForMs, signal }: { readonly bundledForMs: number | undefined; readonly signal: AbortSignal | undefined },
  ): Promise<boolean> {
    const { clock, logger } = this.#options.runtime;
    const nowMs = clock.wallNow();
    const names = this.#names;
    const inStateForMs = clock.now() - (this.#state?.sinceMs ?? clock.now());
    const facts = { nowMs, requested: found.rotate, bundledForMs, inStateForMs, names };
    const step = nextStep(stored, facts, this.#times);
    if (step === 'none') return false;
    const next = await afterStep(step, stored, { names, nowMs, times: this.#times });
    const begun = step === 'announce' || step === 'replace';
    const written = await this.#secret.replace(found, next, { begun, signal });
    if (written.stored) this.#adopt(written.stored);
    logger.info({ secret: this.#secretName, step }, STEPS[step]);
    return true;
  }

  /** Fills the Secret when it does not exist or is still empty. */
  async #make(found: FoundSecret | undefined, signal: AbortSignal | undefined): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    if (found && Object.keys(found.object.data ?? {}).length > 0) {
      throw new Error(
        `the Secret ${this.#secretName} has no certificates that can be used: delete it, or name another`,
      );
    }
    const nowMs = clock.wallNow();
    const served = this.#stored && nowMs < expiryOf(this.#stored.serving.cert) ? this.#stored : undefined;
    const stored = served ?? (await newCertificates({ names: this.#names, nowMs, times: this.#times }));
    const written = found
      ? await this.#secret.replace(found, stored, { begun: false, signal })
      : await this.#secret.create(stored, served !== undefined, signal);
    if (written.stored) this.#adopt(written.stored);
    const about = { secret: this.#secretName };
    if (served) logger.warn(about, 'the Secret of the webhooks was deleted: made it again, and rotate its CA');
    else logger.info(about, 'made a CA and a certificate for webhooks');
  }

  #adopt(stored: StoredCertificates): void {
    const { clock, metrics } = this.#options.runtime;
    const old = this.#stored;
    this.#stored = stored;
    const [is, bundle] = [stateOf(stored), bundleOf(stored)];
    if (this.#state?.is !== is || this.#state.bundle !== bundle) this.#state = { is, bundle, sinceMs: clock.now() };
    const left = (cert: string): number => Math.round((expiryOf(cert) - clock.wallNow()) / 1000);
    metrics.set('levelhook_certificate_expiry_seconds', { use: 'serving' }, left(stored.serving.cert));
    metrics.set('levelhook_certificate_expiry_seconds', { use: 'ca' }, left(stored.authorities.at(-1) ?? ''));
    this.#ready.resolve();
    if (old && old.serving.cert !== stored.serving.cert) for (const listener of this.#listeners) listener();
  }

  get #secretName(): string {
    return formatObjectKey(this.#options.secret);
  }

  /** Of a follower, too: it may lead soon. */
  #watches(): ChangeWatch[] {
    const { client, runtime, secret } = this.#options;
    const own = { path: resourcePath(SECRETS, { namespace: secret.namespace }), query: byName(secret.name) };
    const labelled = BUNDLE_KINDS.map((kind) => ({
      path: resourcePath(kind),
      query: { labelSelector: BUNDLE_SELECTOR },
    }));
    return [own, ...labelled].map(
      (each) => new ChangeWatch({ runtime, client, ...each, retryMs: WATCH_RETRY_MS, hint: HINT }),
    );
  }

  /** Once, until another one comes or a look succeeds. */
  #report(error: string, logger: Logger): void {
    if (error !== this.#lastError)
      logger.warn({ secret: this.#secretName, error }, 'certificates were not looked after');
    this.#lastError = error;
  }
}

const STEPS = {
  renew: 'renewed the certificate of the webhooks',
  announce: 'a rotation begins: a new CA goes into the bundles beside the old one',
  serve: 'every bundle has the new CA: webhooks are served with a certificate of it',
  retire: 'a rotation ends: the old CA leaves the bundles',
  replace: 'the CA of the webhooks had expired: made a new one',
} as const;

function byName(name: string): { fieldSelector: string } {
  return { fieldSelector: `metadata.name=${name}` };
}

/** The names that the apiserver may expect in the certificate. */
function namesOf({ service, url }: WebhookAddress): string[] {
  const dns = service ? `${service.name}.${service.namespace}.svc` : undefined;
  // A URL has an IPv6 address in brackets.
  const host = url === undefined ? undefined : new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
  return [...(dns === undefined ? [] : [dns, `${dns}.cluster.local`]), ...(host === undefined ? [] : [host])];
}
