import { z } from 'zod';
import {
  API_VERSION,
  DNS_1035_LABEL,
  DNS_LABEL,
  DNS_SUBDOMAIN,
  FIELD_PATH,
  isName,
  isNamedName,
  KIND,
  LABEL_KEY,
  MAX_API_VERSION,
  MAX_DNS_LABEL,
  MAX_DNS_SUBDOMAIN,
  MAX_FIELD_PATH,
  MAX_LABEL_KEY,
  UID,
} from '../core/names.ts';

/** The names of `core/names` as schemas, for everything decoded with zod. None of it is part of a function's bundle. */
export const apiVersion = z
  .string()
  .max(MAX_API_VERSION)
  .regex(API_VERSION, 'must be an API version, such as v1 or apps/v1');
export const kind = z.string().regex(KIND, 'must be a kind, such as Pod').max(MAX_DNS_LABEL);
export const namespace = z.string().regex(DNS_LABEL, 'must be the name of a namespace').max(MAX_DNS_LABEL);
export const dnsLabel = z.string().regex(DNS_LABEL, 'must be a DNS label').max(MAX_DNS_LABEL);
export const dns1035Label = z.string().regex(DNS_1035_LABEL, 'must be a DNS-1035 label');
export const dnsSubdomain = z.string().max(MAX_DNS_SUBDOMAIN).regex(DNS_SUBDOMAIN, 'must be a DNS subdomain');
export const uid = z.string().regex(UID, 'must be a UID');

/**
 * The name of an object of any kind. The pattern is for the published schemas: it excludes `.` and `..` without a
 * lookahead, which Go's and Rust's expressions lack. `isName` refuses half of a surrogate pair too, which JSON of other
 * languages cannot hold.
 */
export const objectName = z
  .string()
  .regex(/^([^/%.][^/%]*|\.[^/%.][^/%]*|\.\.[^/%]+)$/, 'must be the name of an object')
  .refine(isName, 'must be the name of an object');

/**
 * The name of an object in a request or a rule. See `isNamedName`. The description has the bound: as a `maxLength` it
 * would make the published schemas narrower than those of earlier releases.
 */
export const namedName = objectName
  .refine(isNamedName, {
    message: 'must be a name of 1024 characters at most, without control characters or invisible ones',
  })
  .describe('At most 1024 characters, without control characters or invisible ones.');

export const labelKey = z.string().max(MAX_LABEL_KEY).regex(LABEL_KEY, 'must be the key of a label or an annotation');
export const fieldPath = z
  .string()
  .max(MAX_FIELD_PATH)
  .regex(FIELD_PATH, 'must be a path with dots, such as spec.nodeName');

/**
 * A schema that refuses the key `__proto__` at any depth.
 * Trap: zod silently drops this key from a record, and a selector without it selects more than it should.
 */
export function withOwnKeys<T>(schema: z.ZodType<T>): z.ZodType<T> {
  return z.preprocess((value, context) => {
    const left: unknown[] = [value];
    while (left.length > 0) {
      const at = left.pop();
      if (typeof at !== 'object' || at === null) continue;
      if (Object.hasOwn(at, '__proto__')) {
        context.addIssue({ code: 'custom', message: 'the key __proto__ has no meaning anywhere' });
        return z.NEVER;
      }
      for (const each of Object.values(at)) left.push(each);
    }
    return value;
  }, schema);
}
