import { z } from 'zod';
import { parseLabelSelector } from '../../../core/index.ts';
import { number, seconds, setting, words } from './setting.ts';

/** Which functions run, and how the gateway asks them. */
export const functionSettings = {
  functionUrls: setting(
    'LEVELHOOK_FUNCTIONS',
    words
      .pipe(
        z.array(
          z
            .url({ protocol: /^https?$/, error: 'must be http:// or https:// URLs' })
            // URLs are logged and shown; a function is protected by its signature.
            .refine(
              (url) => new URL(url).username === '' && new URL(url).password === '',
              'must hold no user or password',
            ),
        ),
      )
      .prefault(''),
    'URLs of functions, separated by spaces or commas',
  ),
  signingSecrets: setting(
    'LEVELHOOK_SIGNING_SECRETS',
    words.prefault(''),
    'signs triggers: `whsec_` and base64; two while one is rotated; required with `LEVELHOOK_FUNCTIONS`',
  ),
  functionCaFile: setting(
    'LEVELHOOK_FUNCTION_CA_FILE',
    z.string().optional(),
    'PEM file of the certificate authorities of functions at `https` URLs',
    "Node's authorities",
  ),
  // With a label selector several gateways share a cluster.
  reconcileFunctions: setting(
    'LEVELHOOK_RECONCILE_FUNCTIONS',
    z.string().refine(isSelector, 'must be all, none, or a label selector as kubectl takes it').prefault('all'),
    'which ReconcileFunctions to run: `all`, `none` or a label selector; others are removed as if deleted',
  ),
  allowedEndpoints: setting(
    'LEVELHOOK_ALLOWED_ENDPOINTS',
    words
      .pipe(z.array(z.string().regex(/^https?:\/\/[^/]+$/, 'must hold origins, as https://functions.example.com')))
      .prefault(''),
    'origins that their `endpoint.url` may have, such as `https://*.example.com`, separated by spaces or commas',
    'Services of their namespace only',
  ),
  maxFunctionsPerNamespace: setting(
    'LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE',
    number.int().min(1).prefault('50'),
    'ReconcileFunctions of a namespace that run, the oldest ones; further ones wait, and say so',
  ),
  reviewMs: setting(
    'LEVELHOOK_REVIEW_SECONDS',
    seconds(1, 3600).prefault('60'),
    'seconds between two reviews of the rights, the Secret and the Service of a ReconcileFunction, and of the kinds of any function',
  ),
};

function isSelector(text: string): boolean {
  try {
    parseLabelSelector(text);
    return true;
  } catch {
    return false;
  }
}
