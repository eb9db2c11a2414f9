import { z } from 'zod';
import { decodeObjectKey, isDnsSubdomain } from '../../../core/index.ts';
import type { LeaseKey } from '../lease.ts';

/** The documentation of a setting. */
export interface DescribedSetting {
  readonly variable: string;
  /** A value in backticks, or words where no value of the variable means the same. */
  readonly default: string;
  readonly meaning: string;
}

const descriptions = z.registry<DescribedSetting>();

/** @param unset the meaning of an unset variable, in words, when `form` has no default. */
export function setting<Form extends z.ZodType>(variable: string, form: Form, meaning: string, unset = 'none'): Form {
  const text = form instanceof z.ZodPrefault ? String(form.def.defaultValue) : '';
  descriptions.add(form, { variable, default: text === '' ? unset : `\`${text}\``, meaning });
  return form;
}

/** The description that was given to `setting`. */
export function described(form: z.ZodType): DescribedSetting {
  const description = descriptions.get(form);
  if (!description) throw new TypeError('a setting without a description');
  return description;
}

export const words = z.string().transform((text) => text.split(/[\s,]+/).filter((word) => word !== ''));
export const flag = z.enum(['true', 'false']).transform((text) => text === 'true');
export const number = z.coerce.number('must be a number');
export const seconds = (min: number, max: number) =>
  z.coerce
    .number('must be a number of seconds')
    .min(min)
    .max(max)
    .transform((value) => value * 1000);

export const days = z.coerce
  .number('must be a number of days')
  .min(1)
  .max(3650)
  .transform((value) => value * 86_400_000);

/** `namespace/name`. */
export function leaseKeyOf(text: string): LeaseKey | undefined {
  const { namespace, name = '' } = decodeObjectKey(text) ?? {};
  return namespace !== undefined && isDnsSubdomain(name) ? { namespace, name } : undefined;
}

export const namespacedName = () =>
  z
    .string()
    .transform(leaseKeyOf)
    .refine((key) => key !== undefined, 'must be namespace/name')
    .optional();
