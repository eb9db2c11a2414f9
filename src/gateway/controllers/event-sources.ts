import { formatKind, type Resource } from '../../core/index.ts';
import type { Description, OwnedDescription, SourceDescription, WatchedDescription } from '../../contract/index.ts';
import type { ChangeHandler } from '../cache/change.ts';
import type { Expressions } from '../cel/expressions.ts';
import { enqueueMapped, enqueueObject, EventSource } from '../handlers/event-handler.ts';
import type { KeyScope } from '../handlers/key-scope.ts';
import { createMapper, ownerMapper } from '../handlers/mapper.ts';
import { EventPredicate } from '../handlers/predicate.ts';

/** What a controller hears of: its sources, each with its predicate and where its events lead. */
export class EventSources {
  /** The kind `for`. */
  readonly reconciled: EventSource;
  readonly #handlers: { readonly kind: string; readonly handler: ChangeHandler }[];

  /** @throws ExpressionError for what `checkSources` refuses. */
  constructor({ name, for: reconciled, owns, watches }: Description, scope: KeyScope, expressions: Expressions) {
    const sourceOf = (description: SourceDescription, field: string): EventSource =>
      new EventSource(description, predicateOf(description, field, expressions));
    this.reconciled = sourceOf(reconciled, 'for');
    const owned = ({ owner, ...source }: OwnedDescription, at: number): ChangeHandler =>
      enqueueMapped(name, sourceOf(source, `owns.${at}`), ownerMapper(owner, scope));
    const watched = ({ map, ...source }: WatchedDescription, at: number): ChangeHandler => {
      const compile = (text: string) =>
        expressions.create(text, `watches.${at}.map.expression`, { result: 'names', hasOld: false });
      return enqueueMapped(name, sourceOf(source, `watches.${at}`), createMapper(map, scope, compile));
    };
    this.#handlers = [
      { kind: formatKind(reconciled), handler: enqueueObject(name, this.reconciled, scope) },
      ...owns.map((source, at) => ({ kind: formatKind(source), handler: owned(source, at) })),
      ...watches.map((source, at) => ({ kind: formatKind(source), handler: watched(source, at) })),
    ];
  }

  /** Those that hear of this kind: several, where it is named several times. */
  handlersFor(resource: Resource): ChangeHandler[] {
    return this.#handlers.filter(({ kind }) => kind === formatKind(resource)).map(({ handler }) => handler);
  }
}

function predicateOf(
  { predicate }: SourceDescription,
  field: string,
  expressions: Expressions,
): EventPredicate | undefined {
  if (!predicate) return undefined;
  return new EventPredicate(predicate, (text, at) =>
    expressions.create(text, `${field}.predicate.${at}`, { result: 'bool', hasOld: true }),
  );
}
