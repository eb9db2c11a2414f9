import type { KubernetesObject } from '../../core/index.ts';
import type { Webhook } from '../webhook.ts';
import { type AdmissionContext, admissionWebhook, type AdmissionWebhookOptions } from './admission.ts';
import type { AdmissionRequest } from './admission-request.ts';
import { Denial } from './denial.ts';

/** Options of a validating webhook. */
export type ValidatingWebhookOptions<T extends KubernetesObject> = Omit<
  AdmissionWebhookOptions<T>,
  'reinvocationPolicy'
>;

/**
 * Decides on a write: returns nothing to allow it, or `deny(...)`. After an error there is no decision, and the failure
 * policy applies. It must write nothing, because it may be asked again about the same write.
 */
export type Validate<O extends object = KubernetesObject> = (
  request: AdmissionRequest<O>,
  context: AdmissionContext,
) => Promise<Denial | void> | Denial | void;

/**
 * Declares a webhook that allows or refuses writes:
 *
 * ```ts
 * const sizes = validatingWebhook({ name: 'sizes', for: Widget }).validate(({ object, oldObject }) => {
 *   if (oldObject && object.spec.size < oldObject.spec.size) return deny('a widget cannot shrink');
 * });
 * ```
 *
 * `O` is the type of the reviewed object, if it differs from that of the kind:
 * `validatingWebhook<Widget, Scale>({ name: 'scales', for: Widget, subresources: ['scale'] })`.
 */
export function validatingWebhook<T extends KubernetesObject, O extends object = T>(
  options: ValidatingWebhookOptions<T>,
): { validate(validate: Validate<O>): Webhook } {
  return {
    validate: (validate) =>
      admissionWebhook<T, O>('validating', options, async (request, context) => {
        const denial = await validate(request, context);
        if (denial === undefined) return {};
        // The meaning of another value is unknown, and must not count as consent.
        if (!(denial instanceof Denial)) throw new TypeError('a validating webhook returns nothing, or deny(...)');
        return { denial };
      }),
  };
}
