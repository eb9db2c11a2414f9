import { z } from 'zod';
import { isApiVersion, isKind, isName, isNamedName, isNamespace, isResourceVersion, isUid } from '../core/index.ts';
import { MAX_LABEL_KEY, MAX_LABEL_VALUE } from '../core/names.ts';
import { apiVersion, kind, namedName, namespace, objectName, uid } from './name-schema.ts';
import {
  MAX_LOG_LINES,
  MAX_RELATED_NAMES,
  MAX_RELATED_RULES,
  MAX_RELATED_BYTES,
  type OutcomeBody,
  type RelatedRule,
  type RequestResult,
  type ResultLine,
} from './outcome.ts';
import { isSelector, labelSelector } from './source-schema.ts';
import { CONTRACT_VERSION } from './trigger.ts';

const write = z.object({
  apiVersion,
  kind,
  namespace: namespace.exactOptional(),
  name: objectName,
  uid,
  // As `isResourceVersion` of core; a pattern, so that it appears in the published schema.
  resourceVersion: z
    .string()
    .regex(/^[1-9][0-9]*$/, 'must be a resourceVersion')
    .exactOptional()
    .describe("The written object's, as the apiserver answered. Absent for a delete."),
  deleted: z.literal(true).exactOptional().describe('Present when the write was a delete.'),
  gone: z
    .literal(true)
    .exactOptional()
    .describe(
      'Beside deleted, when the object no longer exists: the apiserver answered with a Status, or the write took away ' +
        'the last finalizer of an object that was being deleted.',
    ),
});

const writes = z
  .array(write)
  .exactOptional()
  .describe("Every write that the apiserver acknowledged: the key's next run starts only when the cache shows them.");

/** Strict: with a misspelt `labelSelector` it would name every object. */
const relatedRule: z.ZodType<RelatedRule> = z
  .strictObject({
    apiVersion,
    kind,
    namespace: namespace.exactOptional().describe('Default: any namespace.'),
    names: z.array(namedName).min(1).max(MAX_RELATED_NAMES).exactOptional(),
    labelSelector: labelSelector.exactOptional(),
  })
  .refine(({ names, labelSelector: selector }) => !names || !selector, 'must not have both names and labelSelector')
  .refine(({ labelSelector: selector }) => selector === undefined || isSelector(selector), {
    message: 'must be a label selector that Kubernetes accepts',
    path: ['labelSelector'],
  })
  .describe('Objects whose changes wake the key. Without names and labelSelector: all objects of the kind.');

const related = z
  .array(relatedRule)
  .max(MAX_RELATED_RULES)
  .exactOptional()
  .describe(
    'The objects on which the key depends from now on, instead of those that an earlier run has named; empty for ' +
      'none, absent for no change. Each kind must be a source of the description with the map `related`. At most 32 ' +
      'KiB of JSON in UTF-8.',
  );

const log = z
  .array(z.string())
  .max(MAX_LOG_LINES)
  .exactOptional()
  .describe("The last lines of the run's log, the oldest first, for people. Never hold a secret.");

const stack = z.string().exactOptional().describe('The stack of the error, as the language prints it, for people.');

/** A year. */
const MAX_SECONDS = 365 * 86_400;

const seconds = z.number().min(0).max(MAX_SECONDS).exactOptional();

const message = z
  .string()
  .describe("For the log and the key's history: one line, cut to 1024 characters. Never holds a secret.");

/** A run may go on for at most this long without a callback: a day. */
export const MAX_CALLBACK_SECONDS = 86_400;

export const resultSchema: z.ZodType<RequestResult> = z.discriminatedUnion('status', [
  z
    .object({
      status: z.literal('done'),
      requeueAfterSeconds: seconds.describe(
        'Run again after this time, 0.1 s at least; 0 does not requeue. Replaces the time of an earlier run.',
      ),
      writes,
      related,
      log,
    })
    .describe('The run succeeded.'),
  z
    .object({
      status: z.literal('error'),
      message,
      retryAfterSeconds: seconds.describe(
        'Time until the retry instead of the backoff, at least 0.1 s or the backoff, whichever is shorter; 0: the backoff.',
      ),
      writes,
      related,
      log,
      stack,
    })
    .describe('Try again, after a backoff.'),
  z
    .object({ status: z.literal('terminal'), message, writes, related, log, stack })
    .describe('Trying again will not help: the key rests until something changes.'),
  z
    .object({ status: z.literal('unknown'), message })
    .describe(
      'The function cannot know which writes took effect: a write got no answer or a 5xx, or a run of a batch did not end. ' +
        'The key waits for its deadline.',
    ),
  z
    .object({
      status: z.literal('accepted'),
      withinSeconds: z.number().min(1).max(MAX_CALLBACK_SECONDS).describe("At most the callback's `maxSeconds`."),
    })
    .describe(
      "The run goes on, and its outcome comes to the trigger's callback within this time. Allowed in an answer of 202 " +
        'and in a line of a streamed answer, if the trigger names a callback.',
    ),
]);

/** Decodes a function's answer on the gateway's side. A separate file: zod is no part of a function's bundle. */
export const outcomeSchema: z.ZodType<OutcomeBody> = z
  .object({
    version: z.literal(CONTRACT_VERSION),
    results: z.array(resultSchema).describe('One for each request of the trigger, in their order.'),
  })
  .describe('The body of the 200 answer to a trigger; of the 202 answer when a result is `accepted`.');

/** A line of a streamed answer, for the published documents. `decodeResultLine` decodes it. */
export const resultLineSchema: z.ZodType<ResultLine> = z
  .object({
    run: z.int().min(1).describe('The `run` of the request.'),
    result: resultSchema,
  })
  .describe(
    'One line of the streamed 200 answer to a trigger of several requests (`application/x-ndjson`): JSON without a ' +
      'line break, followed by one. The function writes it when the run has ended.',
  );

/**
 * Decodes each result of an answer separately: a wrong result does not affect the others.
 * @param requests of the trigger. With more or fewer results it is unknown which request each belongs to.
 * @throws TypeError when the answer is no list of that many results.
 */
export function decodeResults(value: unknown, requests: number): readonly (RequestResult | TypeError)[] {
  return resultDecoders(value, requests).map((decode) => decode());
}

/** As `decodeResults`, with a function for each result: the caller decodes one in a turn, because it may be long. */
export function resultDecoders(value: unknown, requests: number): readonly (() => RequestResult | TypeError)[] {
  const { version, results } = isRecord(value) ? value : {};
  if (version !== CONTRACT_VERSION) throw new TypeError(`version: must be ${CONTRACT_VERSION}`);
  if (!Array.isArray(results)) throw new TypeError('results: must be a list');
  if (results.length !== requests) {
    const asked = requests === 1 ? 'one request' : `${requests} requests`;
    throw new TypeError(`results: ${results.length} for ${asked}`);
  }
  return results.map((each: unknown, at) => () => decodeResult(each, ['results', at]));
}

/**
 * Decodes one line of a streamed answer: the run that it names, and its result, or the reason why the result cannot be
 * decoded.
 * @returns undefined for text that names no run.
 */
export function decodeResultLine(text: string): { run: number; result: RequestResult | TypeError } | undefined {
  let line: { run?: unknown; result?: unknown } | null;
  try {
    line = JSON.parse(text) as typeof line;
  } catch {
    return undefined;
  }
  const run = line?.run;
  if (typeof run !== 'number' || !Number.isSafeInteger(run) || run < 1) return undefined;
  return { run, result: decodeResult(line?.result, ['result']) };
}

function decodeResult(value: unknown, at: readonly PropertyKey[]): RequestResult | TypeError {
  if (isPlainSuccess(value)) return value;
  const tooLong = listIssue(value, at);
  const parsed = tooLong ? undefined : resultSchema.safeParse(value);
  if (parsed?.success) return parsed.data;
  const issue = tooLong ?? issueOf(parsed?.error, at);
  return (isRecord(value) && asFailure(value, issue.message)) || issue;
}

/**
 * A result with a known status and readable writes, but a wrong field elsewhere, becomes a failure. Its outcome is not
 * unknown: otherwise the key would wait until its deadline.
 */
function asFailure(
  { status, writes: written, log: lines, stack: trace }: Record<string, unknown>,
  problem: string,
): RequestResult | undefined {
  if (status !== 'done' && status !== 'error' && status !== 'terminal') return undefined;
  if (listIssue({ status, writes: written })) return undefined;
  const { data } = resultSchema.safeParse({ status: 'done', ...(written === undefined ? {} : { writes: written }) });
  if (data?.status !== 'done') return undefined;
  return {
    status: 'error',
    message: `the result is wrong: ${problem}`,
    ...(data.writes && { writes: data.writes }),
    ...(isLog(lines) && { log: lines }),
    ...(typeof trace === 'string' && { stack: trace }),
  };
}

/**
 * A fast check without the schema. True means that the schema accepts the value and leaves it unchanged, which holds
 * for nearly all results: successes with the current fields. False means that the schema has to check. The check takes
 * 4 us for each of the first thousand results, where the schema takes 33, and half of the schema's time later.
 */
function isPlainSuccess(value: unknown): value is RequestResult {
  if (!isRecord(value) || value['status'] !== 'done') return false;
  for (const name in value) if (!DONE_FIELDS.has(name)) return false;
  const { requeueAfterSeconds: after, writes: written, log: lines } = value;
  return (
    (after === undefined || (typeof after === 'number' && after >= 0 && after <= MAX_SECONDS)) &&
    (written === undefined || (Array.isArray(written) && written.every(isPlainWrite))) &&
    (lines === undefined || isLog(lines))
  );
}

const DONE_FIELDS: ReadonlySet<string> = new Set(['status', 'requeueAfterSeconds', 'writes', 'log']);

function isLog(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= MAX_LOG_LINES && value.every((line) => typeof line === 'string');
}

/** The schema accepts it and leaves it unchanged. */
function isPlainWrite(value: unknown): boolean {
  if (!isGoodWrite(value)) return false;
  for (const name in value as object) if (!WRITE_FIELDS.has(name)) return false;
  return true;
}

/** The schema accepts it, perhaps without fields that it does not know. */
function isGoodWrite(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { namespace: space, resourceVersion, deleted, gone } = value;
  return (
    isApiVersion(value['apiVersion']) &&
    isKind(value['kind']) &&
    isName(value['name']) &&
    isUid(value['uid']) &&
    (space === undefined || isNamespace(space)) &&
    (resourceVersion === undefined || isResourceVersion(resourceVersion)) &&
    (deleted === undefined || deleted === true) &&
    (gone === undefined || gone === true)
  );
}

const WRITE_FIELDS: ReadonlySet<string> = new Set([
  'apiVersion',
  'kind',
  'namespace',
  'name',
  'uid',
  'resourceVersion',
  'deleted',
  'gone',
]);

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Says which element of a result's lists is wrong, or which list is too long, before the schema looks at them: zod
 * makes an issue of each wrong element, some microseconds and 1 KB each, and looks at the length afterwards.
 */
export function listIssue(result: unknown, at: readonly PropertyKey[] = []): TypeError | undefined {
  if (!isRecord(result)) return undefined;
  const { status, writes: written, related: rules } = result;
  if (!HAS_LISTS.has(status)) return undefined;
  for (const [index, each] of Array.isArray(written) ? written.entries() : []) {
    const parsed = isGoodWrite(each) ? undefined : write.safeParse(each);
    if (parsed?.success === false) return issueOf(parsed.error, [...at, 'writes', index]);
  }
  if (isLonger(result['log'], MAX_LOG_LINES)) return tooLong([...at, 'log'], MAX_LOG_LINES);
  if (isLonger(rules, MAX_RELATED_RULES)) return tooLong([...at, 'related'], MAX_RELATED_RULES);
  // A part takes three bytes at least: an empty value and a comma.
  const most = Math.floor(MAX_RELATED_BYTES / 3);
  let parts = 0;
  for (const [index, rule] of Array.isArray(rules) ? rules.entries() : []) {
    if (!isRecord(rule)) continue;
    const path = [...at, 'related', index];
    if (isLonger(rule['names'], MAX_RELATED_NAMES)) return tooLong([...path, 'names'], MAX_RELATED_NAMES);
    parts += selectorParts(rule['labelSelector']);
    if (parts > most) return tooLong([...path, 'labelSelector'], most);
  }
  for (const [index, rule] of Array.isArray(rules) ? rules.entries() : []) {
    const cut = isRecord(rule) ? upToWrong(rule) : undefined;
    const parsed = cut && relatedRule.safeParse(cut);
    if (parsed?.success === false) return issueOf(parsed.error, [...at, 'related', index]);
  }
  return undefined;
}

/**
 * A rule up to its first name, label, expression or value that the schema does not accept, so that the schema makes one
 * issue of it. Undefined when there is none: the schema then makes a few issues of the rule at most.
 */
function upToWrong({ names, labelSelector: selector, ...rule }: Record<string, unknown>): object | undefined {
  const name = firstWrong(names, isNamedName);
  if (name) return { ...rule, names: name };
  const { matchLabels, matchExpressions } = isRecord(selector) ? selector : {};
  if (isRecord(matchLabels)) {
    const key = Object.keys(matchLabels).find((each) => !isPlainLabel(each, matchLabels[each]));
    if (key !== undefined) return { ...rule, labelSelector: { matchLabels: { [key]: matchLabels[key] } } };
  }
  const expressions = firstWrong(matchExpressions, isPlainExpression);
  if (!expressions) return undefined;
  const wrong = expressions.pop();
  if (isRecord(wrong) && Array.isArray(wrong['values'])) {
    expressions.push({ ...wrong, values: firstWrong(wrong['values'], isLabelValue) ?? [] });
  } else expressions.push(wrong);
  return { ...rule, labelSelector: { matchExpressions: expressions } };
}

/** The elements of a list up to the first that is not plain; undefined when all are, or when it is no list. */
function firstWrong(list: unknown, isPlain: (each: unknown) => boolean): unknown[] | undefined {
  const at = Array.isArray(list) ? list.findIndex((each) => !isPlain(each)) : -1;
  return at < 0 ? undefined : (list as unknown[]).slice(0, at + 1);
}

/** The schema passes over the key `__proto__`. */
function isPlainLabel(key: string, value: unknown): boolean {
  return key === '__proto__' || (key.length <= MAX_LABEL_KEY && isLabelValue(value));
}

function isLabelValue(value: unknown): boolean {
  return typeof value === 'string' && value.length <= MAX_LABEL_VALUE;
}

function isPlainExpression(value: unknown): boolean {
  if (!isRecord(value)) return false;
  for (const name in value) if (!EXPRESSION_FIELDS.has(name)) return false;
  const { key, operator, values } = value;
  return (
    typeof key === 'string' &&
    key.length <= MAX_LABEL_KEY &&
    OPERATORS.has(operator) &&
    (!('values' in value) || (Array.isArray(values) && values.every(isLabelValue)))
  );
}

const EXPRESSION_FIELDS: ReadonlySet<string> = new Set(['key', 'operator', 'values']);
const OPERATORS: ReadonlySet<unknown> = new Set(['In', 'NotIn', 'Exists', 'DoesNotExist']);

/** How many labels, expressions and values there are in a selector, which may be wrong. */
function selectorParts(selector: unknown): number {
  const { matchLabels, matchExpressions } = isRecord(selector) ? selector : {};
  let parts = isRecord(matchLabels) ? Object.keys(matchLabels).length : 0;
  for (const each of Array.isArray(matchExpressions) ? (matchExpressions as unknown[]) : []) {
    const values = isRecord(each) ? each['values'] : undefined;
    parts += 1 + (Array.isArray(values) ? values.length : 0);
  }
  return parts;
}

/** Results of other status have no lists: the schema leaves them out. */
const HAS_LISTS: ReadonlySet<unknown> = new Set(['done', 'error', 'terminal']);

function isLonger(value: unknown, most: number): boolean {
  return Array.isArray(value) && value.length > most;
}

function tooLong(path: readonly PropertyKey[], most: number): TypeError {
  return new TypeError(`${path.join('.')}: must have at most ${most} elements`);
}

export function issueOf(error: z.ZodError | undefined, at: readonly PropertyKey[] = []): TypeError {
  const [issue] = error?.issues ?? [];
  return new TypeError(`${[...at, ...(issue?.path ?? [])].join('.')}: ${issue?.message}`);
}
