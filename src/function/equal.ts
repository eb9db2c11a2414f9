import { ownValue } from '../core/index.ts';
import { QUANTITIES } from './kinds/quantities.ts';

/** A kind (`apps/v1/Deployment`) or a part of several (`PodTemplateSpec`) that has quantities. */
export type TypeWithQuantities = keyof typeof QUANTITIES;

/**
 * Whether two values of the API are equal, as `equality.Semantic.DeepEqual` of apimachinery defines it. Write only when
 * they differ:
 *
 * ```ts
 * if (!equal(pages.data, data)) await api.replace(ConfigMap, { ...pages, data });
 * ```
 *
 * - The order of fields does not matter; that of a list does.
 * - Absent, null and an empty list are equal. So is `{}` as the value itself and in the fields whose type in Go has no
 *   pointer: labels, annotations, data, label selectors, resources of a container, metadata, spec, status and update
 *   strategies. Any other `{}` differs from an absent field, because most have a meaning (`emptyDir: {}`). A few have
 *   none in Go (`status.loadBalancer: {}`): they lead to a write that the apiserver takes for no change.
 * - Quantities are equal when their amounts are: `1Gi` and `1073741824`. Their places are known in whole objects of
 *   built-in kinds, and in parts with a given `type`; everywhere else they are compared as text. So are times.
 * - 0, false and '' differ from an absent field, because many fields have other defaults.
 * @param type of both. Default: from their `apiVersion` and `kind`.
 */
export function equal(a: unknown, b: unknown, type?: TypeWithQuantities): boolean {
  return isSame(a, b, type ?? kindOf(a), true);
}

/** Fields of the API that are maps, or structures without a pointer: Go treats `{}` there as absent. */
const EMPTY_IS_ABSENT = new Set([
  'metadata',
  'spec',
  'status',
  'strategy',
  'updateStrategy',
  'resources',
  'labels',
  'annotations',
  'matchLabels',
  'data',
  'binaryData',
  'stringData',
  'limits',
  'requests',
]);

/**
 * A type with quantities: a name, or the types of the fields that lead to quantities. `''` is a quantity, and `*`
 * before a name is a map.
 */
type Type = string | { readonly [field: string]: Type };
const TYPES: Readonly<Record<string, Type>> = QUANTITIES;

/** Whether Go treats `{}` in this field of a type as absent. */
function isEmptyAbsent(type: Type | undefined, field: string): boolean {
  // Devices, their slices and the allocations of claims point to a nodeSelector. Their types have no name.
  if (field === 'nodeSelector') return typeof type !== 'object';
  return EMPTY_IS_ABSENT.has(field) && !(field === 'resources' && hasPointerToResources(type));
}

/** Unlike a container and a PersistentVolumeClaim. */
function hasPointerToResources(type: Type | undefined): boolean {
  return type === 'PodSpec' || type === 'ContainerStatus' || type === QUANTITIES['v1/Pod'].status;
}

function isSame(a: unknown, b: unknown, type: Type | undefined, emptyIsAbsent: boolean): boolean {
  if (a === b) return true;
  const [isLeftEmpty, isRightEmpty] = [isEmpty(a, type, emptyIsAbsent), isEmpty(b, type, emptyIsAbsent)];
  if (isLeftEmpty || isRightEmpty) return isLeftEmpty && isRightEmpty;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
    return type === '' ? isSameQuantity(a, b) : isSameNumber(a, b);
  }
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, at) => isSame(item, b[at], type, false));
  }
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return [...names].every((name) =>
    isSame(ownValue(left, name), ownValue(right, name), typeOfField(type, name), isEmptyAbsent(type, name)),
  );
}

function isEmpty(value: unknown, type: Type | undefined, emptyIsAbsent: boolean): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (!emptyIsAbsent || typeof value !== 'object') return false;
  return Object.entries(value).every(([name, each]) =>
    isEmpty(each, typeOfField(type, name), isEmptyAbsent(type, name)),
  );
}

/** A whole number may come as a number or, where a number would not be exact, as a bigint. */
function isSameNumber(a: unknown, b: unknown): boolean {
  if (typeof a === 'bigint') return Number.isInteger(b) && a === BigInt(b as number);
  return typeof b === 'bigint' && Number.isInteger(a) && b === BigInt(a as number);
}

function kindOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { apiVersion, kind } = value as { apiVersion?: unknown; kind?: unknown };
  return typeof apiVersion === 'string' && typeof kind === 'string' ? `${apiVersion}/${kind}` : undefined;
}

function typeOfField(type: Type | undefined, name: string): Type | undefined {
  if (type === undefined || type === '') return undefined;
  if (typeof type !== 'string') return ownValue(type, name);
  return type.startsWith('*') ? type.slice(1) : typeOfField(ownValue(TYPES, type), name);
}

function isSameQuantity(a: unknown, b: unknown): boolean {
  const [left, right] = [nanosOf(a), nanosOf(b)];
  return left !== undefined && left === right;
}

const QUANTITY = /^([+-]?)(\d*)\.?(\d*)(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)$/;
const POWERS = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'];
const MAX_INT64 = 2n ** 63n - 1n;
/** Computing with more digits would take long, and no amount needs them. */
const MAX_LENGTH = 100;

/**
 * The value of a quantity in billionths, rounded away from 0 and bounded as `resource.ParseQuantity` does. Undefined
 * for text that is no quantity.
 */
function nanosOf(value: unknown): bigint | undefined {
  const text = String(value);
  const [, sign, whole = '', fraction = '', exponent, suffix = ''] =
    (text.length <= MAX_LENGTH && QUANTITY.exec(text)) || [];
  if (sign === undefined || whole + fraction === '') return undefined;
  const isBinary = suffix.endsWith('i');
  const power = isBinary ? 0 : exponent === undefined ? 3 * (POWERS.indexOf(suffix) - 3) : Number(exponent.slice(1));
  const factor = isBinary ? 1024n ** BigInt('KMGTPE'.indexOf(suffix.charAt(0)) + 1) : 1n;
  const digits = BigInt(whole + fraction) * factor;
  const shift = power + 9 - fraction.length;
  const nanos = shift >= 0 ? digits * 10n ** BigInt(shift) : roundedUp(digits, 10n ** BigInt(-shift));
  const bounded = isBinary && nanos > MAX_INT64 * 10n ** 9n ? MAX_INT64 * 10n ** 9n : nanos;
  return sign === '-' ? -bounded : bounded;
}

const roundedUp = (digits: bigint, divisor: bigint): bigint => (digits + divisor - 1n) / divisor;
