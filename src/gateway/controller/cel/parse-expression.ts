import type { CelEnv, parse, plan } from '@bufbuild/cel';
import { messageOf } from '../../../core/index.ts';
import { mixedArithmetic } from './arithmetic.ts';
import { celLibrary } from './library.ts';
import { linearFunctions } from './linear-functions.ts';
import { TimeLimitError, withinTime } from './time-limit.ts';

type Ast = ReturnType<typeof parse>;
type Expr = Ast['expr'];

/** An expression that cannot be used. The message says why, and where in it. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** An expression that can be evaluated, with the facts that bound its cost. */
export interface ParsedExpression {
  readonly evaluate: ReturnType<typeof plan>;
  /** The variables that it uses. */
  readonly variables: ReadonlySet<string>;
  /** Operations, each counted once. */
  readonly nodes: number;
  /** Loops, nested or not. */
  readonly loops: number;
  /** Elements of the longest list that is written in it. */
  readonly longest: number;
  /**
   * Whether `nodes`, `loops` and the extent of the objects bound its cost. They do not if it matches a regular
   * expression, or if it has loops and builds values, which may be larger than the objects.
   */
  readonly bounded: boolean;
  /** The position of a part of the expression, such as `line 1, column 5`. */
  readonly placeOf: (part: bigint | undefined) => string | undefined;
}

/** Nested brackets, counted before the parser runs. */
const MAX_NESTING = 32;
const MAX_NODES = 500;
/** Nested loops. */
const MAX_LOOPS = 3;
/** An expression within the other limits is parsed in a tenth of this time. */
const PARSE_LIMIT_MS = 100;

/** The variables of an expression. */
export const PREDICATE_VARIABLES: readonly string[] = ['object', 'oldObject'];
export const MAPPER_VARIABLES: readonly string[] = ['object'];

let environment: CelEnv | undefined;
const TYPES = new Set(['int', 'uint', 'double', 'bool', 'string', 'bytes', 'list', 'map', 'null_type', 'type']);

/**
 * Parses an expression over some variables and makes every check that needs no object.
 * @param limitMs the time for parsing. Default 100.
 * @throws ExpressionError
 */
export function parseExpression(
  text: string,
  variables: readonly string[],
  limitMs: number = PARSE_LIMIT_MS,
): ParsedExpression {
  if (nestingOf(text) > MAX_NESTING) throw new ExpressionError(`has more than ${MAX_NESTING} nested brackets`);
  // The library is loaded first, so that the time for loading it is not counted.
  const { celEnv, plan } = celLibrary();
  const known = (environment ??= celEnv({ funcs: [...mixedArithmetic(), ...linearFunctions()] }));
  const ast = parsed(text, limitMs);
  const placeOf = (part: bigint | undefined): string | undefined => {
    const offset = part === undefined ? undefined : ast.sourceInfo?.positions[String(part)];
    return offset === undefined ? undefined : placeAt(text, offset);
  };
  const found = { nodes: 0, loops: 0, longest: 0, variables: new Set<string>() };
  const seen = { matches: false, buildsValues: false };
  const wrong = (message: string, { id }: Expr): ExpressionError => {
    const place = placeOf(id);
    return new ExpressionError(place === undefined ? message : `${message} at ${place}`);
  };

  const walk = (expr: Expr | undefined, local: ReadonlySet<string>, depth: number): void => {
    if (!expr) return;
    found.nodes += 1;
    if (found.nodes > MAX_NODES) throw new ExpressionError(`has more than ${MAX_NODES} operations`);
    const { exprKind } = expr;
    switch (exprKind.case) {
      case 'identExpr': {
        const { name } = exprKind.value;
        if (local.has(name) || TYPES.has(name)) return;
        if (!variables.includes(name))
          throw wrong(`uses the unknown name "${name}" (known: ${variables.join(' and ')})`, expr);
        found.variables.add(name);
        return;
      }
      case 'selectExpr':
        walk(exprKind.value.operand, local, depth);
        return;
      case 'callExpr': {
        const { function: name, target, args } = exprKind.value;
        if (/^[A-Za-z]\w*$/.test(name) && !known.funcs.find(name)) {
          throw wrong(
            `calls "${name}", which is not a standard function or macro of CEL with this number of arguments`,
            expr,
          );
        }
        if (name === 'matches') seen.matches = true;
        const appended = name === '_+_' && isResult(args[0]) ? args[1] : undefined;
        if (appended?.exprKind.case === 'listExpr') {
          // The macros map and filter expand to these operations.
          for (const each of appended.exprKind.value.elements) walk(each, local, depth);
          return;
        }
        if (name === '_+_') seen.buildsValues = true;
        for (const each of [target, ...args]) walk(each, local, depth);
        return;
      }
      case 'listExpr':
        found.longest = Math.max(found.longest, exprKind.value.elements.length);
        for (const each of exprKind.value.elements) {
          if (each.exprKind.case !== 'constExpr') seen.buildsValues = true;
          walk(each, local, depth);
        }
        return;
      case 'structExpr':
        seen.buildsValues = true;
        if (exprKind.value.messageName !== '') throw wrong('constructs a message, which is not supported', expr);
        for (const { keyKind, value } of exprKind.value.entries) {
          if (keyKind.case === 'mapKey') walk(keyKind.value, local, depth);
          walk(value, local, depth);
        }
        return;
      case 'comprehensionExpr': {
        const loop = exprKind.value;
        if (depth >= MAX_LOOPS) throw wrong(`has more than ${MAX_LOOPS} nested loops`, expr);
        found.loops += 1;
        walk(loop.iterRange, local, depth);
        walk(loop.accuInit, local, depth);
        const inner = new Set([...local, loop.iterVar, loop.iterVar2, loop.accuVar]);
        for (const each of [loop.loopCondition, loop.loopStep, loop.result]) walk(each, inner, depth + 1);
        return;
      }
      case 'constExpr':
      case undefined:
        return;
    }
  };
  walk(ast.expr, new Set(), 0);
  const bounded = !seen.matches && (found.loops === 0 || !seen.buildsValues);
  return { ...found, bounded, evaluate: plan(known, ast), placeOf };
}

/** The variable in which a macro gathers its result; expressions cannot contain this name. */
function isResult(expr: Expr | undefined): boolean {
  return expr?.exprKind.case === 'identExpr' && expr.exprKind.value.name === '@result';
}

function parsed(text: string, limitMs: number): Ast {
  try {
    return withinTime(limitMs, () => celLibrary().parse(text));
  } catch (error) {
    if (error instanceof TimeLimitError) throw new ExpressionError(`cannot be read within ${limitMs} ms`);
    const { rawMessage, location } = error as { rawMessage?: string; location?: { start: { offset: number } } };
    if (rawMessage === undefined || !location) throw new ExpressionError(`cannot be read: ${messageOf(error)}`);
    throw new ExpressionError(`${rawMessage} at ${placeAt(text, location.start.offset)}`);
  }
}

function placeAt(text: string, offset: number): string {
  const lines = text.slice(0, offset).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** Returns the depth of nested brackets. Brackets in string literals count as well. */
function nestingOf(text: string): number {
  let [depth, most] = [0, 0];
  for (const character of text) {
    if ('([{'.includes(character)) depth += 1;
    else if (')]}'.includes(character)) depth -= 1;
    most = Math.max(most, depth);
  }
  return most;
}
