import {
  formatKind,
  type LabelSelector,
  messageOf,
  requirementsOf,
  type Resource,
  UserError,
} from '../../core/index.ts';
import {
  type Description,
  MAX_PREDICATE_NODES,
  type Predicate,
  type SourceDescription,
  type WatchMap,
} from '../../contract/index.ts';
import { parseExpression } from '../cel/parse-expression.ts';
import { visitLeaves } from '../handlers/predicate.ts';

type Sources = Pick<Description, 'for' | 'owns' | 'watches' | 'reads'>;

/** What is wrong with the sources, in one word. The message begins with the field: `watches.0.predicate.all.1.cel ...`. */
export class SourceError extends UserError {
  readonly reason: 'PredicateTooLarge' | 'SelectorInvalid' | 'ExpressionInvalid' | 'KindHasNoNamespace';

  constructor(reason: SourceError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * What of a description's sources the schema cannot tell: selectors, expressions, the size of predicates.
 * @throws SourceError
 */
export function checkSources({ for: reconciled, owns, watches }: Sources): void {
  if (reconciled.labelSelector) checkSelector(reconciled.labelSelector, 'for.labelSelector');
  checkPredicate(reconciled, 'for');
  owns.forEach((source, at) => checkPredicate(source, `owns.${at}`));
  watches.forEach((source, at) => {
    checkPredicate(source, `watches.${at}`);
    checkMap(source.map, `watches.${at}.map`);
  });
}

/**
 * What of the sources only the cluster can tell: a kind without namespaces has none to choose from.
 * @throws SourceError
 */
export function checkScopes(sources: Sources, resources: readonly Resource[]): void {
  const fields = [
    ['for', sources.for] as const,
    ...(['owns', 'watches', 'reads'] as const).flatMap((name) =>
      sources[name].map((source, at) => [`${name}.${at}`, source] as const),
    ),
  ];
  for (const [field, source] of fields) {
    const found = resources.find((resource) => formatKind(resource) === formatKind(source));
    if (found?.namespaced !== false || source.namespaces === undefined) continue;
    const message = `${field}.namespaces is not for ${formatKind(source)}, which has no namespaces: leave it out.`;
    throw new SourceError('KindHasNoNamespace', message);
  }
}

function checkPredicate({ predicate }: SourceDescription, field: string): void {
  if (!predicate) return;
  const nodes = visitLeaves(predicate, (leaf, at) => checkLeaf(leaf, `${field}.predicate.${at}`));
  if (nodes <= MAX_PREDICATE_NODES) return;
  const message = `${field}.predicate is made of ${nodes} predicates: ${MAX_PREDICATE_NODES} at most.`;
  throw new SourceError('PredicateTooLarge', message);
}

function checkLeaf(leaf: Predicate, field: string): void {
  if ('labelSelector' in leaf) checkSelector(leaf.labelSelector, field);
  if ('cel' in leaf) checkExpression(leaf.cel, ['object', 'oldObject'], field);
}

function checkMap(map: WatchMap, field: string): void {
  if (map.by === 'cel') checkExpression(map.expression, ['object'], `${field}.expression`);
}

function checkExpression(text: string, variables: readonly string[], field: string): void {
  told('ExpressionInvalid', `${field} is no expression that can be used: it`, () => parseExpression(text, variables));
}

function checkSelector(selector: LabelSelector, field: string): void {
  told('SelectorInvalid', `${field} is no label selector:`, () => requirementsOf(selector));
}

function told(reason: SourceError['reason'], what: string, check: () => unknown): void {
  try {
    check();
  } catch (error) {
    throw new SourceError(reason, `${what} ${messageOf(error)}.`);
  }
}
