import type { CelInput } from '@bufbuild/cel';
import type { KubernetesObject } from '../../../core/index.ts';
import type { CpuBudget } from './cpu-budget.ts';
import { celLibrary } from './library.ts';
import { beginEvaluation } from './linear-functions.ts';
import { MAPPER_VARIABLES, type ParsedExpression, parseExpression, PREDICATE_VARIABLES } from './parse-expression.ts';
import type { ParsedExpressions } from './parsed-expressions.ts';
import { TimeLimitError } from './time-limit.ts';
import { celValue, extentWithin } from './values.ts';

/** The evaluation ran out of time. A later evaluation may succeed. */
export const CUT_OFF = Symbol('cut off');

/** An expression that a controller evaluates on an object. */
export interface Expression {
  /** Whether it uses `oldObject`. */
  readonly usesOld: boolean;
  /**
   * Never throws.
   * @returns undefined when the evaluation failed or its result has the wrong type, `CUT_OFF` when its time ran out.
   */
  evaluate(
    object: KubernetesObject,
    old: KubernetesObject | undefined,
  ): boolean | string | readonly string[] | typeof CUT_OFF | undefined;
}

/**
 * Why an evaluation has no result. The message shows nothing of the object's contents, only fields that the expression
 * names.
 */
export interface EvaluationError {
  readonly reason: 'error' | 'type' | 'time';
  readonly message: string;
}

export interface ExpressionOptions {
  /** The type of its result: a bool, or a string or list of strings. */
  readonly result: 'bool' | 'names';
  /** Whether there is an `oldObject`. */
  readonly hasOld: boolean;
  readonly report: (error: EvaluationError) => void;
  /** The controller's budget, which limits each evaluation. */
  readonly budget: CpuBudget;
  /** Expressions that were parsed earlier. Default: none. */
  readonly parsed?: ParsedExpressions | undefined;
}

/**
 * How many values an evaluation visits in a millisecond, at least. An evaluation that cannot visit more values than its
 * limit allows at this speed runs without the watchdog.
 */
export const VALUES_PER_MS = 1000;

/**
 * Creates an expression. Each evaluation has a hard time limit and is charged to its controller's budget. While the
 * budget is used up, evaluations are cut off, so that an expensive expression does not block other controllers.
 * @throws ExpressionError when it cannot be used.
 */
export function createExpression(text: string, options: ExpressionOptions): Expression {
  const { budget, hasOld, parsed: known, report, result } = options;
  const variables = hasOld ? PREDICATE_VARIABLES : MAPPER_VARIABLES;
  const parsed = known ? known.parse(text, variables) : parseExpression(text, variables);
  return {
    usesOld: parsed.variables.has('oldObject'),
    evaluate(object, old) {
      const answer = answerOf(parsed, { budget, result }, object, old);
      if (!('error' in answer)) return answer.value;
      report(answer.error);
      return answer.error.reason === 'time' ? CUT_OFF : undefined;
    },
  };
}

type Answer = { readonly value: boolean | string | string[] } | { readonly error: EvaluationError };

function answerOf(
  parsed: ParsedExpression,
  { budget, result }: Pick<ExpressionOptions, 'budget' | 'result'>,
  object: KubernetesObject,
  old: KubernetesObject | undefined,
): Answer {
  const evaluate = (): unknown => {
    beginEvaluation();
    const variables: Record<string, CelInput> = { object: celValue(object), oldObject: celValue(old ?? null) };
    return typed(parsed.evaluate(variables), result);
  };
  const { isCelError } = celLibrary();
  try {
    const value = budget.within(evaluate, (limitMs) => isCheap(parsed, limitMs, object, old));
    if (isCelError(value)) return { error: errorOf(value, parsed) };
    if (value !== undefined) return { value: value as boolean | string | string[] };
    const wanted = result === 'bool' ? 'true or false' : 'a string or a list of strings';
    return { error: { reason: 'type', message: `does not evaluate to ${wanted}` } };
  } catch (error) {
    if (error instanceof TimeLimitError) return { error: { reason: 'time', message: error.message } };
    return { error: { reason: 'error', message: 'failed' } };
  }
}

/** Returns undefined for a value of another type. The time limit covers this check, because a list may be long. */
function typed(value: unknown, result: 'bool' | 'names'): unknown {
  const { isCelError, isCelList } = celLibrary();
  if (isCelError(value)) return value;
  if (result === 'bool') return typeof value === 'boolean' ? value : undefined;
  if (typeof value === 'string') return value;
  const list = isCelList(value) ? [...value] : undefined;
  return list?.every((each) => typeof each === 'string') ? list : undefined;
}

/**
 * Whether the evaluation is certain to end within the limit. Every operation visits each value at most once, and each
 * loop repeats it at most once for each entry of the longest list.
 */
function isCheap(parsed: ParsedExpression, limitMs: number, ...objects: (KubernetesObject | undefined)[]): boolean {
  const { bounded, loops, nodes } = parsed;
  if (!bounded) return false;
  const cheap = limitMs * VALUES_PER_MS;
  const extents = objects.map((object) => extentWithin(object, cheap / nodes));
  const size = extents.reduce((sum, each) => sum + each.size, 0);
  const longest = Math.max(parsed.longest, ...extents.map((each) => each.longest));
  return nodes * size * longest ** loops < cheap;
}

/**
 * The library's messages quote values, which may be a Secret's. Only messages that quote just types and fields are
 * reported.
 */
function errorOf(error: { message: string; exprId: bigint | undefined }, parsed: ParsedExpression): EvaluationError {
  const { message, exprId } = error;
  const safe = /^(field not found|found no matching overload for \S+ applied to '[^']*'|int divide by zero)/.exec(
    message,
  );
  const place = parsed.placeOf(exprId);
  return { reason: 'error', message: `${safe?.[0] ?? 'failed'}${place === undefined ? '' : ` at ${place}`}` };
}
