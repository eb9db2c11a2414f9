import { isPrintable } from './bounded-text.ts';
import { formatJson } from './json.ts';

/**
 * The rules of Kubernetes for names. All text from an object, a declaration, a request or a command line is checked
 * here before it is used as a name. The published schemas contain the same patterns, so the patterns are anchored and
 * mean the same in JavaScript and in Go. A `MAX_` constant limits the length where the pattern itself does not.
 */

/** apimachinery's `dns1123SubdomainFmt` (pkg/util/validation/validation.go). */
export const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** Of a DNS label and of a kind, as their patterns have it. */
export const MAX_DNS_LABEL = 63;
export const MAX_DNS_SUBDOMAIN = 253;
/** apimachinery's `IsDNS1123Label`. */
export const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** apimachinery's `IsDNS1035Label`. */
export const DNS_1035_LABEL = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** `v1`, `apps/v1`: apimachinery's `ParseGroupVersion` (pkg/runtime/schema/group_version.go), with valid parts. */
export const API_VERSION =
  /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;
export const MAX_API_VERSION = 253 + 1 + 63;
/** A DNS-1035 label, once in lower case: apiextensions-apiserver's `ValidateCustomResourceDefinitionNames`. */
export const KIND = /^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$/;
/**
 * The part of a label's or an annotation's key behind its prefix: apimachinery's `labelKeyFmt`
 * (pkg/api/validate/content/kube.go).
 */
export const LABEL_NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
/**
 * apimachinery's `IsLabelKey`. In an annotation's key the prefix may have capitals (pkg/api/validation/objectmeta.go).
 */
export const LABEL_KEY =
  /^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
export const MAX_LABEL_KEY = 253 + 1 + 63;
export const MAX_LABEL_VALUE = 63;
/** The path of a field in an object: parts with dots between, without white space. It names an index. */
export const FIELD_PATH = /^[^\s=.]+(\.[^\s=.]+)*$/;
export const MAX_FIELD_PATH = 512;
/** Printable, without a space. The apiserver makes UUIDs; in an owner reference it takes any text. */
export const UID = /^[!-~]{1,128}$/;

const matches =
  (pattern: RegExp, max = 1024) =>
  (text: unknown): text is string =>
    typeof text === 'string' && text.length <= max && pattern.test(text);

/** A namespace: a DNS label. */
export const isNamespace = /* @__PURE__ */ matches(DNS_LABEL);
/** An API group other than the core group, whose name is empty, and any other DNS subdomain. */
export const isDnsSubdomain = /* @__PURE__ */ matches(DNS_SUBDOMAIN, MAX_DNS_SUBDOMAIN);
/** A group's version, and a plural or a subresource as URLs have it: a DNS-1035 label. */
export const isDns1035Label = /* @__PURE__ */ matches(DNS_1035_LABEL);
/** `v1`, `apps/v1`. */
export const isApiVersion = /* @__PURE__ */ matches(API_VERSION, MAX_API_VERSION);
/** `Pod`. */
export const isKind = /* @__PURE__ */ matches(KIND);
/** `v1/Pod`, `apps/v1/ReplicaSet`. */
export function isFormattedKind(text: unknown): text is string {
  if (typeof text !== 'string') return false;
  const slash = text.lastIndexOf('/');
  return isApiVersion(text.slice(0, slash)) && isKind(text.slice(slash + 1));
}

/** A key of a label or an annotation. */
export const isLabelKey = /* @__PURE__ */ matches(LABEL_KEY, MAX_LABEL_KEY);
/** `spec.nodeName`. Counts characters, as the published schemas do: JavaScript's length counts some of them twice. */
export const isFieldPath = (text: unknown): text is string =>
  matches(FIELD_PATH, 2 * MAX_FIELD_PATH)(text) && Array.from(text).length <= MAX_FIELD_PATH;
/** A UID that may be an index value. */
export const isUid = /* @__PURE__ */ matches(UID);

/**
 * An object's name: apimachinery's `IsPathSegmentName` (pkg/api/validate/content/path.go), the only rule that applies
 * to every kind. Names of roles may hold spaces and colons, and have any length. Half of a surrogate pair is refused,
 * too.
 */
export function isName(text: unknown): text is string {
  return typeof text === 'string' && /^(?!\.\.?$)[^/%\p{Cs}]+$/u.test(text);
}

/** Characters of a name in other text, and of one in the cache. Kubernetes does not limit the names of roles. */
export const MAX_NAMED = 1024;

/**
 * A name in other text: in a request, a function's rule, an owner reference. Names of roles may hold any character but
 * `/` and `%`; this refuses invisible characters and more than 1024 characters, because no client uses such names.
 */
export function isNamedName(text: unknown): text is string {
  return isName(text) && text.length <= MAX_NAMED && isPrintable(text) && !text.includes('\ufffd');
}

/** Returns the text if it is valid. @throws TypeError with one sentence. */
export function nameOr(what: string, is: (text: unknown) => text is string, text: unknown): string {
  if (is(text)) return text;
  throw new TypeError(`${shown(text)} is no ${what}`);
}

/** Foreign text for a message: one line, cut to 100 characters. */
export function shown(text: unknown): string {
  // JSON has no text for undefined and functions.
  return `${formatJson(text) as string | undefined}`.slice(0, 100);
}

/** The value of a record's own property. `constructor` and `__proto__` are keys like any other. */
export function ownValue<T>(record: Readonly<Record<string, T>> | null | undefined, key: string): T | undefined {
  return record && Object.hasOwn(record, key) ? record[key] : undefined;
}

/**
 * The value at a path of own properties, such as `spec.selector`. It does not lead through lists.
 * @param path a list of names where a name may have a dot.
 */
export function fieldAt(object: unknown, path: string | readonly string[]): unknown {
  return (typeof path === 'string' ? path.split('.') : path).reduce<unknown>(
    (at, name) => (typeof at === 'object' ? ownValue(at as Record<string, unknown>, name) : undefined),
    object,
  );
}
