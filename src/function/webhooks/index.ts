/**
 * Webhooks of a controller. A separate entry, since most functions have none, and the library for JSON Patch is a third
 * of the size of a function.
 */
export type { ApiReader, ReviewContext, Webhook } from '../webhook.ts';
export type { AdmissionContext, AdmissionWebhookOptions } from './admission.ts';
export type {
  AdmissionDetails,
  AdmissionKind,
  AdmissionRequest,
  AdmissionResource,
  UserInfo,
} from './admission-request.ts';
export {
  type ConversionHub,
  type Conversions,
  conversionWebhook,
  type ConversionWebhook,
  type ConversionWebhookOptions,
  type Converted,
} from './conversion.ts';
export { type Denial, type DenialCause, type DenialOptions, deny } from './denial.ts';
export { type Mutate, mutatingWebhook } from './mutating.ts';
export { type Validate, validatingWebhook, type ValidatingWebhookOptions } from './validating.ts';
