import { backoffMs, type Clock } from '../../core/index.ts';
import { CONTRACT_VERSION } from '../../contract/index.ts';
import { Endpoint, type LastAnswer } from '../controller/endpoint/endpoint.ts';
import { FALSE, type Finding, TRUE } from './conditions.ts';
import type { ControllerSpec } from '../controller/running/controller-spec.ts';
import { contractMismatch, DescribeError, describeFunction, type InTurn } from '../controller/endpoint/describe.ts';

/** How soon a function that did not answer as it should is asked again: at first, and at most, doubling. */
const PROBE_MS = [1000, 600_000] as const;

/** The running controller's facts about its function. */
export interface Heard {
  /** Why its circuit breaker is open, if it is. */
  readonly openReason: string | undefined;
  /** The last answer to a trigger. */
  readonly lastAnswer: LastAnswer | undefined;
}

/**
 * Whether a function answers. A function is asked when it was declared or changed, and not again once it has answered:
 * a request would wake a function that sleeps. Afterwards the answers to its triggers decide, and while its circuit
 * breaker is open only they do.
 */
export class Reachability {
  readonly #clock: Clock;
  readonly #inTurn: InTurn | undefined;
  /** The finding in the status about this declaration: another gateway has asked. */
  #reported: Finding | undefined;
  #probe: Probe | undefined;

  /** @param inTurn as of `describeFunction`. */
  constructor(clock: Clock, inTurn?: InTurn) {
    this.#clock = clock;
    this.#inTurn = inTurn;
  }

  /**
   * Takes over the finding of another gateway, unless this one has asked itself.
   * @param reported the finding in the status, if it is about the same declaration and was good.
   */
  adopt(reported: Finding | undefined): void {
    this.#reported = reported;
  }

  /** @param hash of the resolved function that the controller was started from: another hash is another function. */
  async look(spec: ControllerSpec, hash: string, heard: Heard): Promise<Finding> {
    const known = this.#known(hash);
    // A function that was updated in place refuses triggers; its description was right when it was asked.
    const other = known && otherContractSince(known.atWallMs, heard.lastAnswer);
    if (other) known.finding = findingOf(contractMismatch(spec.url, other));
    if (known && heard.openReason !== undefined) {
      // The fault that the probe found says more than the open circuit.
      return isGood(known) ? FALSE('CircuitBreakerOpen', `spec.endpoint: ${heard.openReason}`) : known.finding;
    }
    if (known && !isGood(known) && answersSince(known.atWallMs, heard.lastAnswer)) known.finding = ANSWERED;
    if (known && this.#clock.now() < this.dueMs(hash, heard.openReason)) return known.finding;
    const atWallMs = this.#clock.wallNow();
    const finding = await this.#ask(spec);
    const probes = (known?.probes ?? 0) + 1;
    this.#probe = { hash, finding, atWallMs, nextMs: this.#clock.now() + backoffMs(PROBE_MS, probes), probes };
    return finding;
  }

  /** When it has to be asked; Infinity when the answers to its triggers will decide. */
  dueMs(hash: string, openReason: string | undefined): number {
    const known = this.#known(hash);
    if (!known) return 0;
    return isGood(known) || openReason !== undefined ? Infinity : known.nextMs;
  }

  forget(): void {
    this.#reported = undefined;
    this.#probe = undefined;
  }

  async #ask({ url, rules, keys, ca, description }: ControllerSpec): Promise<Finding> {
    const clock = this.#clock;
    const endpoint = new Endpoint(url, keys, { connections: 1, ca, clock, ...(rules ? { rules } : {}) });
    try {
      const { name } = await describeFunction(endpoint, this.#inTurn);
      if (name === description.name) return ANSWERED;
      return FALSE(
        'NameMismatch',
        `metadata.name: ${url} calls its controller "${name}", so name the ReconcileFunction that`,
      );
    } catch (error) {
      if (!(error instanceof DescribeError)) throw error;
      return findingOf(error);
    } finally {
      await endpoint.close();
    }
  }

  #known(hash: string): Probe | undefined {
    if (this.#reported && !this.#probe) {
      this.#probe = { hash, finding: this.#reported, atWallMs: this.#clock.wallNow(), nextMs: 0, probes: 0 };
      this.#reported = undefined;
    }
    return this.#probe?.hash === hash ? this.#probe : undefined;
  }
}

/** The finding of the last time that the function was asked. */
interface Probe {
  readonly hash: string;
  finding: Finding;
  readonly atWallMs: number;
  readonly nextMs: number;
  /** How often it was asked. */
  readonly probes: number;
}

const ANSWERED = TRUE('Answered', 'The function answers, and is the one that is meant.');

function isGood({ finding }: { readonly finding: Finding }): boolean {
  return finding.status === 'True';
}

function answersSince(wallMs: number, last: LastAnswer | undefined): boolean {
  return last !== undefined && !last.isFailure && last.contract !== undefined && last.wallMs > wallMs;
}

/** The contract of a function that has refused a request since, if it is not that of this gateway. */
function otherContractSince(wallMs: number, last: LastAnswer | undefined): string | undefined {
  if (!last?.isFailure || last.wallMs <= wallMs || last.contract === CONTRACT_VERSION) return undefined;
  return last.contract;
}

function findingOf(error: DescribeError): Finding {
  return FALSE(error.reason, `spec.endpoint: ${error.message}`);
}
