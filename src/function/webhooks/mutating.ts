import { formatJson, type KubernetesObject, parseJson } from '../../core/index.ts';
import type { Webhook } from '../webhook.ts';
import { type AdmissionContext, admissionWebhook, type AdmissionWebhookOptions } from './admission.ts';
import type { AdmissionRequest } from './admission-request.ts';
import { Denial } from './denial.ts';
import { patchBetween } from './json-patch.ts';

/**
 * Modifies the object to be written: changes `object`, which is a copy, or returns another one. Returns `deny(...)` to
 * refuse the write. After an error there is no decision, and the failure policy applies. Applied to its own result it
 * must change nothing more, since the apiserver may ask again.
 */
export type Mutate<O extends object = KubernetesObject> = (
  object: O,
  request: AdmissionRequest<O>,
  context: AdmissionContext,
) => Promise<O | Denial | void> | O | Denial | void;

/**
 * Declares a webhook that modifies an object before it is validated and stored:
 *
 * ```ts
 * const defaults = mutatingWebhook({ name: 'defaults', for: Widget }).mutate((widget) => {
 *   widget.spec.size ??= 1;
 * });
 * ```
 *
 * The answer has the difference as a JSON Patch, and none if nothing has changed. A deleted object cannot be changed.
 * `O` is the type of the reviewed object, if it differs from that of the kind.
 */
export function mutatingWebhook<T extends KubernetesObject, O extends object = T>(
  options: AdmissionWebhookOptions<T>,
): { mutate(mutate: Mutate<O>): Webhook } {
  return {
    mutate: (mutate) =>
      admissionWebhook<T, O>('mutating', options, async (request, context) => {
        const copy = structuredClone(request.object);
        // A second, unchanged copy: the patch is the difference to the original.
        const shown = { ...request, object: structuredClone(request.object) } as AdmissionRequest<O>;
        const result = (await mutate(copy, shown, context)) ?? copy;
        if (result instanceof Denial) return { denial: result };
        // As the apiserver would read it: without undefined values, and with dates as texts.
        const changed: unknown = parseJson(formatJson(result));
        if (typeof changed !== 'object' || changed === null || Array.isArray(changed)) {
          throw new TypeError('a mutating webhook returns the object, nothing, or deny(...)');
        }
        const patch = patchBetween(request.object, changed);
        if (patch.length === 0) return {};
        if (request.operation === 'DELETE') throw new TypeError('a mutating webhook cannot change what is deleted');
        return { patch: base64(formatJson(patch)) };
      }),
  };
}

/** More arguments than this overflow the stack. */
const CHUNK = 8192;

function base64(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}
