/** Asks the gateway to write its `caBundle` into a webhook configuration or a CustomResourceDefinition. */
export const INJECT_LABEL = 'levelhook.dev/inject-ca';
export const INJECT_VALUE = 'true';
