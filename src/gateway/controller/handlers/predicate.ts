import { type KubernetesObject, matchesLabels } from '../../../core/index.ts';
import type { Predicate } from '../../../contract/index.ts';
import type { Change } from '../../informer/cache/change.ts';
import type { Expression } from '../cel/expression.ts';
import { hasChangedMap, type WithinTime } from './changed-map.ts';

type Leaf = Exclude<Predicate, { all: unknown } | { any: unknown } | { not: unknown }>;

/** True, false, or undefined for unknown: Kleene's logic, in which `all` of false and unknown is false. */
type Answer = boolean | undefined;

/**
 * A compiled predicate. An event passes when the answer is unknown, so a failed leaf lets exactly the events pass that
 * depend on it.
 */
export class EventPredicate {
  readonly #predicate: Predicate;
  readonly #expressions = new Map<string, Expression>();
  readonly #usesOld: boolean;
  readonly #withinTime: WithinTime;
  /** The leaf that was asked last. */
  #asked: Leaf | undefined;
  /** By leaf, the part of the predicate that is false where this leaf was asked last and the answer is false. */
  readonly #refusing = new Map<Leaf, string>();

  /**
   * @param compile compiles the CEL expression at a path such as `all.0.cel`.
   * @param withinTime bounds comparisons of large maps. Default: they are not bounded.
   */
  constructor(
    predicate: Predicate,
    compile: (expression: string, at: string) => Expression,
    withinTime: WithinTime = (_, work) => work(),
  ) {
    this.#predicate = predicate;
    this.#withinTime = withinTime;
    let usesOld = false;
    visitLeaves(predicate, (leaf, at) => {
      this.#refusing.set(leaf, refusing(at));
      if ('cel' in leaf) this.#expressions.set(leaf.cel, compile(leaf.cel, at));
      usesOld ||=
        'cel' in leaf
          ? (this.#expressions.get(leaf.cel)?.usesOld ?? false)
          : 'changed' in leaf && leaf.changed !== 'resourceVersion';
    });
    this.#usesOld = usesOld;
  }

  /** Whether the answer for an update to `object` depends on the old object. */
  needsOld(object: KubernetesObject): boolean {
    if (!this.#usesOld) return false;
    const answer = evaluate(this.#predicate, (leaf) => {
      if ('labelSelector' in leaf) return matchesLabels(leaf.labelSelector, object.metadata.labels);
      return 'changed' in leaf && leaf.changed === 'resourceVersion' ? true : undefined;
    });
    return answer === undefined;
  }

  /** The answer for every new object; undefined when it depends on the object. */
  get forNew(): boolean | undefined {
    return evaluate(this.#predicate, (leaf) => ('changed' in leaf ? true : undefined));
  }

  passes(change: Change): boolean {
    const old = change.type === 'updated' ? change.old : undefined;
    const answer = evaluate(this.#predicate, (leaf) => {
      this.#asked = leaf;
      if ('labelSelector' in leaf) return matchesLabels(leaf.labelSelector, change.object.metadata.labels);
      if ('cel' in leaf) return this.#ask(leaf.cel, change.object, old);
      // The cache reports an update only when the object has changed.
      if (change.type !== 'updated' || leaf.changed === 'resourceVersion') return true;
      if (!old) return undefined;
      if (leaf.changed === 'generation') return old.metadata.generation !== change.object.metadata.generation;
      return hasChangedMap(leaf.changed, old, change.object, this.#withinTime);
    });
    return answer !== false;
  }

  /** The part of the predicate that made the last answer of `passes` false, such as `all.0.changed`. */
  get refusedBy(): string {
    return (this.#asked && this.#refusing.get(this.#asked)) ?? '';
  }

  #ask(text: string, object: KubernetesObject, old: KubernetesObject | undefined): Answer {
    const answer = this.#expressions.get(text)?.evaluate(object, old);
    // The evaluation failed or was cut off.
    return typeof answer === 'boolean' ? answer : undefined;
  }
}

function evaluate(predicate: Predicate, ask: (leaf: Leaf) => Answer): Answer {
  if ('all' in predicate) return every(predicate.all, (each) => evaluate(each, ask));
  if ('any' in predicate) return negation(every(predicate.any, (each) => negation(evaluate(each, ask))));
  if ('not' in predicate) return negation(evaluate(predicate.not, ask));
  return ask(predicate);
}

/** Of `any` all parts were false, and of `not` its part was true: they have refused themselves, at the outermost. */
function refusing(path: string): string {
  const names = path.split('.');
  const at = names.findIndex((name) => name === 'any' || name === 'not');
  return at === -1 ? path : names.slice(0, at + 1).join('.');
}

/** Stops at the first false answer. */
function every(predicates: readonly Predicate[], ask: (each: Predicate) => Answer): Answer {
  let answer: Answer = true;
  for (const each of predicates) {
    const found = ask(each);
    if (found === false) return false;
    if (found === undefined) answer = undefined;
  }
  return answer;
}

function negation(answer: Answer): Answer {
  return answer === undefined ? undefined : !answer;
}

/**
 * Visits the predicates that combine no others, each with its path, such as `all.0.not.cel`.
 * @returns the number of all predicates.
 */
export function visitLeaves(predicate: Predicate, visit: (leaf: Leaf, at: string) => void, at = ''): number {
  const [name = '', value] = Object.entries(predicate)[0] ?? [];
  const inner = (each: Predicate, path: string): number => visitLeaves(each, visit, `${path}.`);
  if ('not' in predicate) return 1 + inner(predicate.not, `${at}not`);
  if ('all' in predicate || 'any' in predicate) {
    return (value as readonly Predicate[]).reduce((sum, each, index) => sum + inner(each, `${at}${name}.${index}`), 1);
  }
  visit(predicate, `${at}${name}`);
  return 1;
}
