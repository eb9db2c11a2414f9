import { formatKind, type Resource } from '../../../core/index.ts';
import type { Description, OwnedDescription, SourceDescription, WatchedDescription } from '../../../contract/index.ts';
import { type Change, type ChangeHandler, keysOf, type Wakeup } from '../../informer/cache/change.ts';
import { LIMIT_MS } from '../cel/cpu-budget.ts';
import { VALUES_PER_MS } from '../cel/expression.ts';
import type { Expressions } from '../cel/expressions.ts';
import { TimeLimitError } from '../cel/time-limit.ts';
import { extentWithin } from '../cel/values.ts';
import type { WithinTime } from '../handlers/changed-map.ts';
import { enqueueMapped, enqueueObject, EventSource } from '../handlers/event-handler.ts';
import type { KeyScope } from '../handlers/key-scope.ts';
import { HandlerCutOffError } from '../handlers/handler-cut-off-error.ts';
import { createMapper, type MapperTools, ownerMapper } from '../handlers/mapper.ts';
import { EventPredicate } from '../handlers/predicate.ts';

/**
 * The limit, in milliseconds, of all handlers of a controller for one change. It is above the limit of expressions, so
 * that cheap handlers still run when expressions have used theirs up.
 */
const LIMIT_OF_A_CHANGE_MS = 1.5 * LIMIT_MS;

/** Values of an object that a path leads through in a tenth of a millisecond. */
const SMALL = 1000;

/** One of a controller's handlers, and where it stands in the description. */
interface Handler {
  readonly kind: string;
  readonly field: string;
  readonly handler: ChangeHandler;
  readonly report: ReturnType<Expressions['reporter']>;
}

/** The event handlers of a controller: its sources, each with its predicate and mapper. */
export class EventSources {
  /** The kind `for`. */
  readonly reconciled: EventSource;
  readonly scope: KeyScope;
  readonly #handlers: readonly Handler[];
  readonly #expressions: Expressions;

  /** @throws ExpressionError for an expression that `checkSources` refuses. */
  constructor({ name, for: reconciled, owns, watches }: Description, scope: KeyScope, expressions: Expressions) {
    this.#expressions = expressions;
    this.scope = scope;
    const sourceOf = (description: SourceDescription, field: string): EventSource =>
      new EventSource(description, predicateOf(description, field, expressions));
    this.reconciled = sourceOf(reconciled, 'for');
    const owned = ({ owner, ...source }: OwnedDescription, field: string): ChangeHandler =>
      enqueueMapped(name, sourceOf(source, field), ownerMapper(owner, scope));
    const watched = ({ map, ...source }: WatchedDescription, field: string): ChangeHandler => {
      return enqueueMapped(
        name,
        sourceOf(source, field),
        createMapper(map, scope, toolsOf(`${field}.map`, expressions)),
      );
    };
    const handlerOf = (source: SourceDescription, field: string, handler: ChangeHandler): Handler => ({
      kind: formatKind(source),
      field,
      handler,
      report: expressions.reporter(field),
    });
    this.#handlers = [
      handlerOf(reconciled, 'for', enqueueObject(name, this.reconciled, scope)),
      ...owns.map((source, at) => handlerOf(source, `owns.${at}`, owned(source, `owns.${at}`))),
      ...watches.map((source, at) => handlerOf(source, `watches.${at}`, watched(source, `watches.${at}`))),
    ];
  }

  /**
   * The handlers for this kind, if the controller has any. One handler stands for all its sources of the kind, so that
   * their time is counted, and bounded for each change.
   */
  handlersFor(resource: Resource): ChangeHandler[] {
    const { budget } = this.#expressions;
    const handlers = this.#handlers.filter(({ kind }) => kind === formatKind(resource));
    if (handlers.length === 0) return [];
    return [
      {
        needsOld: (object, old) => budget.run(() => handlers.some(({ handler }) => handler.needsOld(object, old))),
        handle: (change) => budget.run(() => this.#handle(change, handlers)),
      },
    ];
  }

  /** The keys that `owns` and `watches` map an object of this kind to. Undefined for a kind in neither. */
  secondaryHandlerFor(resource: Resource): ((change: Change) => readonly Wakeup[]) | undefined {
    const { budget } = this.#expressions;
    const handlers = this.#handlers.filter(({ kind, field }) => kind === formatKind(resource) && field !== 'for');
    return handlers.length === 0 ? undefined : (change) => budget.run(() => this.#handle(change, handlers));
  }

  #handle(change: Change, handlers: readonly Handler[]): Wakeup[] {
    const { budget } = this.#expressions;
    const wakeups: Wakeup[] = [];
    let keys = 0;
    for (const { field, handler, report } of handlers) {
      try {
        if (budget.spentInRunMs > LIMIT_OF_A_CHANGE_MS) {
          throw new TimeLimitError(`was left out: the handlers before it took longer than ${LIMIT_OF_A_CHANGE_MS} ms`);
        }
        const woken = handler.handle(change);
        // Keys that a lookup finds are charged when they are known.
        const named = woken.reduce((sum, wakeup) => sum + keysOf(wakeup), 0);
        budget.chargeKeys(named, keys);
        keys += named;
        for (const wakeup of woken) wakeups.push(wakeup);
      } catch (error) {
        if (!(error instanceof TimeLimitError)) throw error;
        report({ reason: 'time', message: error.message }, 'missed');
        throw new HandlerCutOffError(field, error.message);
      }
    }
    return wakeups;
  }
}

function toolsOf(field: string, expressions: Expressions): MapperTools {
  const report = expressions.reporter(field);
  return {
    field,
    compile: (text) => expressions.create(text, `${field}.expression`, { result: 'names', hasOld: false }),
    withinTime: (object, work) => {
      const { size } = extentWithin(object, SMALL);
      // A small object is mapped even when the controller has used up its budget.
      if (size < SMALL) return work();
      try {
        return expressions.budget.within(work, (limitMs) => {
          const most = limitMs * VALUES_PER_MS;
          return extentWithin(object, most).size < most;
        });
      } catch (error) {
        if (!(error instanceof TimeLimitError)) throw error;
        report({ reason: 'time', message: error.message }, 'missed');
        throw new HandlerCutOffError(field, error.message);
      }
    },
  };
}

function predicateOf(
  { predicate }: SourceDescription,
  field: string,
  expressions: Expressions,
): EventPredicate | undefined {
  if (!predicate) return undefined;
  const report = expressions.reporter(`${field}.predicate`);
  const withinTime: WithinTime = (size, work) => {
    try {
      return expressions.budget.within(work, (limitMs) => size < limitMs * VALUES_PER_MS);
    } catch (error) {
      if (!(error instanceof TimeLimitError)) throw error;
      report({ reason: 'time', message: error.message }, 'passes');
      return undefined;
    }
  };
  return new EventPredicate(
    predicate,
    (text, at) => expressions.create(text, `${field}.predicate.${at}`, { result: 'bool', hasOld: true }),
    withinTime,
  );
}
