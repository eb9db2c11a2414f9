import { z } from 'zod';
import { CONTRACT_VERSION } from './trigger.ts';
import type { Description } from './description.ts';

const groupVersionKind = z.object({ apiVersion: z.string().min(1), kind: z.string().min(1) });

/** Decodes a function's description on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const descriptionSchema: z.ZodType<Description> = z.object({
  version: z.literal(CONTRACT_VERSION),
  name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a DNS label'),
  for: groupVersionKind,
  owns: z.array(groupVersionKind).default([]),
  reads: z.array(groupVersionKind).default([]),
  concurrency: z.int().min(1).max(1000).default(1),
  timeoutSeconds: z.number().min(1).max(900).default(15),
});
