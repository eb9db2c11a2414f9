import { backoffMs, type Clock, messageOf } from '../../core/index.ts';
import { Endpoint } from '../endpoint/endpoint.ts';
import { FALSE, type Finding, TRUE } from './conditions.ts';
import type { ControllerSpec } from '../controllers/controller-spec.ts';
import { DescribeError, describeFunction } from '../endpoint/describe.ts';

/** How soon a function that does not answer is asked again: at first, and at most, doubling. */
const PROBE_MS = [1000, 60_000] as const;

/**
 * Whether a function answers. Asked once, and again while it does not, more and more rarely: a function that sleeps is
 * not to be woken for this. Afterwards its triggers tell.
 */
export class Reachability {
  readonly #clock: Clock;
  #probe: { readonly hash: string; ok: boolean; finding: Finding; nextMs: number; probes: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param hash of what the controller was started from: another one is another function.
   * @param openReason why its circuit breaker is open, if it is.
   */
  async look(spec: ControllerSpec, hash: string, openReason: string | undefined): Promise<Finding> {
    const known = this.#probe?.hash === hash ? this.#probe : undefined;
    if (known && this.#clock.now() < this.dueMs(hash, openReason)) return known.finding;
    const probed = await probe(spec, this.#clock);
    // It answers to this, and not to them.
    const isOpen = probed.status === 'True' && openReason !== undefined;
    const finding = isOpen ? FALSE('CircuitBreakerOpen', `spec.endpoint: ${openReason}`) : probed;
    const probes = (known?.probes ?? 0) + 1;
    const nextMs = this.#clock.now() + backoffMs(PROBE_MS, probes);
    this.#probe = { hash, ok: finding.status === 'True', finding, nextMs, probes };
    return finding;
  }

  /** When it has to be asked, by the same arguments; Infinity when its triggers will tell. */
  dueMs(hash: string, openReason: string | undefined): number {
    if (this.#probe?.hash !== hash) return 0;
    return this.#probe.ok && openReason === undefined ? Infinity : this.#probe.nextMs;
  }

  forget(): void {
    this.#probe = undefined;
  }
}

async function probe({ url, rules, keys, ca, description }: ControllerSpec, clock: Clock): Promise<Finding> {
  const endpoint = new Endpoint(url, keys, { connections: 1, ca, clock, ...(rules ? { rules } : {}) });
  try {
    const { name } = await describeFunction(endpoint);
    if (name === description.name) return TRUE('Answered', 'The function answers, and is the one that is meant.');
    return FALSE(
      'NameMismatch',
      `metadata.name: ${url} calls its controller "${name}", so name the ReconcileFunction that`,
    );
  } catch (error) {
    if (!(error instanceof DescribeError)) throw error;
    return FALSE(error.reason, `spec.endpoint: ${messageOf(error)}`);
  } finally {
    await endpoint.close();
  }
}
