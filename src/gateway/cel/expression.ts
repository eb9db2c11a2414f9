import { type CelInput, isCelError, isCelList } from '@bufbuild/cel';
import type { KubernetesObject } from '../../core/index.ts';
import { Allowance } from './allowance.ts';
import { type ParsedExpression, parseExpression } from './parse-expression.ts';
import { threadMs, TimeLimitError, withinTime } from './time-limit.ts';
import { celValue, extentWithin } from './values.ts';

/** What a controller asks of an object. */
export interface Expression {
  /** Whether it looks at the object as it was. */
  readonly usesOld: boolean;
  /** Undefined when there is no answer: it failed, was cut off, or gave something of another type. Never throws. */
  evaluate(
    object: KubernetesObject,
    old: KubernetesObject | undefined,
  ): boolean | string | readonly string[] | undefined;
}

/** Why there was no answer. The message holds nothing of the object's contents but names of fields in the expression. */
export interface ExpressionTrouble {
  readonly reason: 'error' | 'type' | 'time';
  readonly message: string;
}

export interface ExpressionOptions {
  /** What it has to give: a bool, or a string or list of strings. */
  readonly result: 'bool' | 'names';
  /** Whether there is an `oldObject`. */
  readonly hasOld: boolean;
  readonly report: (trouble: ExpressionTrouble) => void;
  /** In milliseconds, for the allowance. Default `performance.now`. */
  readonly now?: () => number;
}

/** Of processor time, for one evaluation. */
export const LIMIT_MS = 100;
/** So many values can be looked at within the limit, a microsecond each: what looks at no more needs no watchdog. */
const CHEAP = 100_000;

/**
 * An expression with a hard limit for each evaluation, and an allowance for all of them: one that uses it up is not
 * evaluated for a while. So a hostile one, or an honest one over huge objects, leaves the gateway to the others.
 * @throws ExpressionError when it cannot be used.
 */
export function createExpression(text: string, options: ExpressionOptions): Expression {
  const parsed = parseExpression(text, options.hasOld ? ['object', 'oldObject'] : ['object']);
  const allowance = new Allowance(options.now ?? (() => performance.now()));
  return {
    usesOld: parsed.variables.has('oldObject'),
    evaluate(object, old) {
      if (allowance.exhausted) {
        options.report({ reason: 'time', message: 'is not evaluated for a while, since it has taken too long' });
        return undefined;
      }
      const [from, cpuFrom] = [performance.now(), threadMs()];
      const answer = answerOf(parsed, options.result, object, old);
      // The lesser: some kernels count a thread's time in ticks of ten milliseconds, and a thread may have to wait.
      allowance.spend(Math.min(performance.now() - from, threadMs() - cpuFrom));
      if (!('trouble' in answer)) return answer.value;
      options.report(answer.trouble);
      return undefined;
    },
  };
}

type Answer = { readonly value: boolean | string | string[] } | { readonly trouble: ExpressionTrouble };

function answerOf(
  parsed: ParsedExpression,
  result: 'bool' | 'names',
  object: KubernetesObject,
  old: KubernetesObject | undefined,
): Answer {
  const evaluate = (): unknown => {
    const variables: Record<string, CelInput> = { object: celValue(object), oldObject: celValue(old ?? null) };
    return typed(parsed.evaluate(variables), result);
  };
  try {
    const value = isCheap(parsed, object, old) ? evaluate() : withinTime(LIMIT_MS, evaluate);
    if (isCelError(value)) return { trouble: troubleOf(value, parsed) };
    if (value !== undefined) return { value: value as boolean | string | string[] };
    const wanted = result === 'bool' ? 'true or false' : 'a string or a list of strings';
    return { trouble: { reason: 'type', message: `gives something else than ${wanted}` } };
  } catch (error) {
    if (error instanceof TimeLimitError) return { trouble: { reason: 'time', message: error.message } };
    return { trouble: { reason: 'error', message: 'failed' } };
  }
}

/** Undefined when it is of another type. Within the limit, too: a list may be long. */
function typed(value: unknown, result: 'bool' | 'names'): unknown {
  if (isCelError(value)) return value;
  if (result === 'bool') return typeof value === 'boolean' ? value : undefined;
  if (typeof value === 'string') return value;
  const list = isCelList(value) ? [...value] : undefined;
  return list?.every((each) => typeof each === 'string') ? list : undefined;
}

/** Every operation looks at each value at most once, and each loop repeats it at most for what the longest list has. */
function isCheap(parsed: ParsedExpression, ...objects: (KubernetesObject | undefined)[]): boolean {
  const { bounded, loops, nodes } = parsed;
  if (!bounded) return false;
  const extents = objects.map((object) => extentWithin(object, CHEAP / nodes));
  const size = extents.reduce((sum, each) => sum + each.size, 0);
  const longest = Math.max(parsed.longest, ...extents.map((each) => each.longest));
  return nodes * size * longest ** loops < CHEAP;
}

/** The library's messages quote values, which may be a Secret's; those that quote types and fields alone are told. */
function troubleOf(
  error: { message: string; exprId: bigint | undefined },
  parsed: ParsedExpression,
): ExpressionTrouble {
  const { message, exprId } = error;
  const told = /^(field not found|found no matching overload for \S+ applied to '[^']*'|int divide by zero)/.exec(
    message,
  );
  const place = parsed.placeOf(exprId);
  return { reason: 'error', message: `${told?.[0] ?? 'failed'}${place === undefined ? '' : ` at ${place}`}` };
}
