import { formatJson, formatKind, messageOf, type Resource } from '../../../core/index.ts';
import type { Description, SourceDescription, WatchMap } from '../../../contract/index.ts';
import {
  MAX_DESCRIPTION_BYTES,
  MAX_EXPRESSIONS,
  MAX_PREDICATE_LEAVES,
  MAX_PREDICATE_NODES,
  MAX_SOURCES,
} from '../../../contract/source.ts';
import { MAPPER_VARIABLES, PREDICATE_VARIABLES } from '../cel/parse-expression.ts';
import { ParsedExpressions } from '../cel/parsed-expressions.ts';
import { checkWebhooks } from './check-webhooks.ts';
import { visitLeaves } from './predicate.ts';
import { checkSelector, SourceError } from './source-error.ts';

type Sources = Pick<Description, 'for' | 'owns' | 'watches' | 'reads' | 'observes' | 'webhooks'>;

/** A CEL expression of a description, and where it stands. */
export interface DeclaredExpression {
  readonly field: string;
  readonly text: string;
  readonly variables: readonly string[];
}

/**
 * Checks the rules of a description's sources that the schema cannot express: their total size, selectors, expressions.
 * @param parsed the expressions that are parsed already; the call adds the others. A caller that must not block the
 *   thread for long parses all of them before, because this call makes no pauses. Default: none are parsed yet.
 * @throws SourceError
 */
export function checkSources(sources: Sources, parsed = new ParsedExpressions()): void {
  checkBounds(sources);
  const { for: reconciled, owns, watches } = sources;
  checkObserved(sources);
  checkWebhooks(sources.webhooks ?? []);
  if (reconciled.labelSelector) checkSelector(reconciled.labelSelector, 'for.labelSelector');
  for (const [field, source] of eventSources({ for: reconciled, owns, watches })) checkPredicate(source, field);
  for (const { field, text, variables } of expressionsOf(sources)) {
    check('ExpressionInvalid', `${field} is not a valid expression: it`, () => parsed.parse(text, variables));
  }
}

/** `observes` may name cached kinds only, because the gateway sees no change of any other kind. */
function checkObserved({ for: reconciled, owns, watches, reads, observes = [] }: Sources): void {
  const named = new Set([reconciled, ...owns, ...watches, ...reads].map(formatKind));
  const at = observes.findIndex((each) => !named.has(formatKind(each)));
  const observed = observes[at];
  if (!observed) return;
  const message = `observes.${at} is of ${formatKind(observed)}: name this kind in for, owns, watches or reads as well.`;
  throw new SourceError('KindNotNamed', message);
}

/**
 * Bounds of a declaration as a whole: a declaration within them is small enough to check in one go.
 * @throws SourceError
 */
export function checkBounds(sources: Sources): void {
  const { owns, watches, reads } = sources;
  const kinds = 1 + owns.length + watches.length + reads.length;
  if (kinds > MAX_SOURCES) {
    const message = `for, owns, watches and reads name ${kinds} kinds together: ${MAX_SOURCES} at most.`;
    throw new SourceError('TooManySources', message);
  }
  let leaves = 0;
  for (const [field, { predicate }] of eventSources(sources)) {
    if (predicate) visitLeaves(predicate, () => (leaves += 1));
    if (leaves <= MAX_PREDICATE_LEAVES) continue;
    const message = `${field}.predicate is one too many: all predicates together may be made of ${MAX_PREDICATE_LEAVES} that combine no others.`;
    throw new SourceError('PredicateTooLarge', message);
  }
  const expressions = expressionsOf(sources);
  const excess = expressions[MAX_EXPRESSIONS];
  if (excess) {
    const message = `${excess.field} is one too many: there are ${expressions.length} CEL expressions, and ${MAX_EXPRESSIONS} at most.`;
    throw new SourceError('TooManyExpressions', message);
  }
}

/**
 * Checks the size of a declaration before it is parsed any further.
 * @param what names the declaration, for the message.
 * @throws SourceError
 */
export function checkBytes(declaration: unknown, what: string): void {
  let bytes: number;
  try {
    bytes = Buffer.byteLength(formatJson(declaration) ?? '');
  } catch {
    throw new SourceError('SpecTooLarge', `${what} is nested too deep.`);
  }
  if (bytes <= MAX_DESCRIPTION_BYTES) return;
  throw new SourceError('SpecTooLarge', `${what} is ${bytes} bytes of JSON: ${MAX_DESCRIPTION_BYTES} at most.`);
}

/** All CEL expressions, in the order in which they stand. */
export function expressionsOf(sources: Sources): DeclaredExpression[] {
  const found: DeclaredExpression[] = [];
  for (const [field, { predicate, map }] of eventSources(sources)) {
    if (predicate) {
      visitLeaves(predicate, (leaf, at) => {
        if (!('cel' in leaf)) return;
        found.push({ field: `${field}.predicate.${at}`, text: leaf.cel, variables: PREDICATE_VARIABLES });
      });
    }
    if (map?.by !== 'cel') continue;
    found.push({ field: `${field}.map.expression`, text: map.expression, variables: MAPPER_VARIABLES });
  }
  return found;
}

type EventSource = SourceDescription & { readonly map?: WatchMap };

/** The sources whose events wake keys, each with its field. */
function eventSources({ for: reconciled, owns, watches }: Omit<Sources, 'reads'>): [string, EventSource][] {
  return [
    ['for', reconciled],
    ...owns.map((source, at): [string, EventSource] => [`owns.${at}`, source]),
    ...watches.map((source, at): [string, EventSource] => [`watches.${at}`, source]),
  ];
}

/**
 * Checks the rules of sources and webhooks that need discovery: a cluster-scoped kind must not have `namespaces`.
 * @throws SourceError
 */
export function checkScopes(sources: Sources, resources: readonly Resource[]): void {
  const fields = [
    ['for', sources.for] as const,
    ...(['owns', 'watches', 'reads'] as const).flatMap((name) =>
      sources[name].map((source, at) => [`${name}.${at}`, source] as const),
    ),
    ...(sources.webhooks ?? []).map((webhook, at) => [`webhooks.${at}`, webhook] as const),
  ];
  for (const [field, source] of fields) {
    const found = resources.find((resource) => formatKind(resource) === formatKind(source));
    if (found?.namespaced !== false || !('namespaces' in source) || source.namespaces === undefined) continue;
    const message = `${field}.namespaces is not for ${formatKind(source)}, which has no namespaces: leave it out.`;
    throw new SourceError('KindHasNoNamespace', message);
  }
}

function checkPredicate({ predicate }: SourceDescription, field: string): void {
  if (!predicate) return;
  const nodes = visitLeaves(predicate, (leaf, at) => {
    if ('labelSelector' in leaf) checkSelector(leaf.labelSelector, `${field}.predicate.${at}`);
  });
  if (nodes <= MAX_PREDICATE_NODES) return;
  const message = `${field}.predicate is made of ${nodes} predicates: ${MAX_PREDICATE_NODES} at most.`;
  throw new SourceError('PredicateTooLarge', message);
}

function check(reason: SourceError['reason'], what: string, parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    throw new SourceError(reason, `${what} ${messageOf(error)}.`);
  }
}
