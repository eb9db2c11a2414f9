import type { WebhookDescription } from '../../../contract/index.ts';

/** How long the apiserver waits when it names no time: for an admission, and for a conversion. */
const DEFAULT_MS = { admission: 10_000, conversion: 30_000 };
const LONGEST_MS = 30_000;
/** Of the time, so that the gateway's reason is with the apiserver before that gives up; within these bounds. */
const MARGIN = 0.05;
const MARGIN_MS = [100, 500] as const;

/**
 * How long the answer to a review may take.
 * @param timeout the query parameter of the apiserver, a Go duration in whole seconds (pkg/admission/plugin/webhook).
 */
export function reviewMs(timeout: string | null, { type }: WebhookDescription): number {
  const [, number, unit] = /^([0-9]{1,6}(?:[.][0-9]{1,9})?)(ms|s)$/.exec(timeout ?? '') ?? [];
  const named = number === undefined ? undefined : Number(number) * (unit === 's' ? 1000 : 1);
  const wholeMs = Math.min(named ?? (type === 'conversion' ? DEFAULT_MS.conversion : DEFAULT_MS.admission), LONGEST_MS);
  const [least, most] = MARGIN_MS;
  return Math.max(0, wholeMs - Math.min(Math.max(wholeMs * MARGIN, least), most));
}
