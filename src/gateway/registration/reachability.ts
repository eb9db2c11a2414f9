import { type Clock, messageOf } from '../../core/index.ts';
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
  #probe: { readonly hash: string; ok: boolean; finding: Finding; nextMs: number; waitMs: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param hash of what the controller was started from: another one is another function.
   * @param openReason why its circuit breaker is open, if it is.
   */
  async look(spec: ControllerSpec, hash: string, openReason: string | undefined): Promise<Finding> {
    const known = this.#probe?.hash === hash ? this.#probe : undefined;
    const isFine = known?.ok && openReason === undefined;
    if (known && (isFine || this.#clock.now() < known.nextMs)) return known.finding;
    const probed = await probe(spec);
    // It answers to this, and not to them.
    const isOpen = probed.status === 'True' && openReason !== undefined;
    const finding = isOpen ? FALSE('CircuitBreakerOpen', `spec.endpoint: ${openReason}`) : probed;
    const waitMs = Math.min(known ? known.waitMs * 2 : PROBE_MS[0], PROBE_MS[1]);
    this.#probe = { hash, ok: finding.status === 'True', finding, nextMs: this.#clock.now() + waitMs, waitMs };
    return finding;
  }

  forget(): void {
    this.#probe = undefined;
  }
}

async function probe({ url, rules, keys, ca, description }: ControllerSpec): Promise<Finding> {
  const endpoint = new Endpoint(url, keys, { connections: 1, ca, ...(rules ? { rules } : {}) });
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
