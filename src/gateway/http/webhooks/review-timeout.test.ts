import { expect, it } from 'vitest';
import type { WebhookDescription } from '../../../contract/index.ts';
import { reviewMs } from './review-timeout.ts';

const pod = { apiVersion: 'v1', kind: 'Pod', name: 'x' };
const admission: WebhookDescription = { ...pod, type: 'validating', operations: ['CREATE'] };
const conversion: WebhookDescription = { ...pod, type: 'conversion', versions: ['v1', 'v2'] };

it.each<[string | null, WebhookDescription, number]>([
  ['10s', admission, 9500],
  ['1s', admission, 900],
  ['4s', admission, 3800],
  ['30s', admission, 29_500],
  ['500ms', admission, 400],
  ['0.5s', admission, 400],
  ['50ms', admission, 0],
  ['900s', admission, 29_500],
  ['soon', admission, 9500],
  [null, admission, 9500],
  [null, conversion, 29_500],
])('a timeout of %s is answered within it', (timeout, webhook, expected) => {
  expect(reviewMs(timeout, webhook)).toBe(expected);
});
