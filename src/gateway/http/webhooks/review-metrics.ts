import type { Runtime } from '../../../core/index.ts';
import type { WebhookDescription } from '../../../contract/index.ts';
import type { Answer } from '../../controller/endpoint/endpoint.ts';

/**
 * The metrics of reviews, as controller-runtime has them (pkg/webhook/internal/metrics/metrics.go): the label `webhook`
 * is the path. Only paths of webhooks that there are have series.
 */
export class ReviewMetrics {
  readonly #runtime: Pick<Runtime, 'clock' | 'metrics'>;
  readonly #inFlight = new Map<string, number>();

  constructor(runtime: Pick<Runtime, 'clock' | 'metrics'>) {
    this.#runtime = runtime;
  }

  /** Counts one review, and measures how long its answer takes. */
  async measure(webhook: string, answer: () => Promise<Response>): Promise<Response> {
    const { clock, metrics } = this.#runtime;
    const startedMs = clock.now();
    this.#count(webhook, 1);
    try {
      const response = await answer();
      if (!this.#inFlight.has(webhook)) return response;
      metrics.count('controller_runtime_webhook_requests_total', { webhook, code: String(response.status) });
      return response;
    } finally {
      // The series of the webhook were removed during the review, and nothing would remove new ones.
      if (this.#inFlight.has(webhook)) {
        this.#count(webhook, -1);
        metrics.observe('controller_runtime_webhook_latency_seconds', { webhook }, (clock.now() - startedMs) / 1000);
      }
    }
  }

  /**
   * Counts the answer of a handler that broke off: a panic in a Go function breaks the connection, and other platforms
   * answer 500.
   */
  countBroken({ type }: WebhookDescription, answer: Answer): void {
    const isBroken =
      answer.kind === 'answered' ? answer.status === 500 : answer.kind === 'failed' && answer.reason === 'connection';
    if (!isBroken) return;
    this.#runtime.metrics.count(
      type === 'conversion'
        ? 'controller_runtime_conversion_webhook_panics_total'
        : 'controller_runtime_webhook_panics_total',
      {},
    );
  }

  /**
   * Removes the series of webhooks that no longer exist.
   * @param path the common beginning of the controller's webhooks
   * @param names of the webhooks that it still has
   */
  async forget(path: string, names: readonly string[]): Promise<void> {
    const kept = new Set(names.map((name) => path + name));
    const webhooks = [...this.#inFlight.keys()].filter((each) => each.startsWith(path) && !kept.has(each));
    for (const webhook of webhooks) {
      this.#inFlight.delete(webhook);
      await this.#runtime.metrics.forget({ webhook });
    }
  }

  #count(webhook: string, by: 1 | -1): void {
    const inFlight = (this.#inFlight.get(webhook) ?? 0) + by;
    // As controller-runtime: a rate of failures has a series before the first one.
    if (!this.#inFlight.has(webhook)) {
      for (const code of ['200', '500']) {
        this.#runtime.metrics.count('controller_runtime_webhook_requests_total', { webhook, code }, 0);
      }
    }
    this.#inFlight.set(webhook, inFlight);
    this.#runtime.metrics.set('controller_runtime_webhook_requests_in_flight', { webhook }, inFlight);
  }
}
