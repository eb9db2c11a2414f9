import { z } from 'zod';
import type { CallbackBody } from './callback.ts';
import { namespace, objectName } from './name-schema.ts';
import { issueOf, listIssue, resultSchema } from './outcome-schema.ts';
import { CONTRACT_VERSION } from './trigger.ts';

/** Decodes a callback on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const callbackSchema: z.ZodType<CallbackBody> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    controller: z.string().min(1).describe('As in the trigger.'),
    token: z.string().describe("As in the trigger's `callback`."),
    namespace: namespace.exactOptional().describe('As in the request; absent when it was.'),
    name: objectName.describe('As in the request.'),
    run: z.int().min(1).describe('As in the request: the number of the run that has this outcome.'),
    result: resultSchema.describe(
      'The outcome of the run; or `accepted` to extend its time: it goes on for `withinSeconds` from now. `writes` may be left out: the ' +
        "key's next run waits for a cache that shows everything from before the callback.",
    ),
  })
  .describe('The body of the signed POST by which a function sends the outcome of a run that went on after a 202.');

/** Decodes a callback. For a wrong one the error names the path of the field, and the reason. */
export function decodeCallback(value: unknown): CallbackBody | TypeError {
  const tooLong = listIssue((value as { readonly result?: unknown } | null | undefined)?.result, ['result']);
  if (tooLong) return tooLong;
  const parsed = callbackSchema.safeParse(value);
  return parsed.success ? parsed.data : issueOf(parsed.error);
}
