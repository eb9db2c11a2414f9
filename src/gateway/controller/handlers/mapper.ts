import {
  controllerOf,
  decodeObjectKey,
  formatKind,
  groupOf,
  type KubernetesObject,
  type ObjectKey,
} from '../../../core/index.ts';
import { controllerIndex, declaredIndex, indexValues, type ObjectEntry } from '../../../contract/cache-layout.ts';
import type { IndexSpec, OwnerChoice, WatchMap } from '../../../contract/index.ts';
import { CUT_OFF, type Expression } from '../cel/expression.ts';
import { HandlerCutOffError } from './handler-cut-off-error.ts';
import type { Lookup } from '../../informer/cache/change.ts';
import type { KeyScope, Target } from './key-scope.ts';

/** Maps an object to the keys that depend on it. On an update the old object is mapped as well as the new one. */
export interface Mapper {
  /** Whether the old object may map to other keys than the new one. It is read only then. */
  needsOld(object: KubernetesObject, old: ObjectEntry): boolean;
  /** @throws HandlerCutOffError when there was no time to find them. */
  targets(object: KubernetesObject): readonly Target[];
}

/** The parts of a controller that its mappers use. */
export interface MapperTools {
  /** Where the mapper stands in the description: `watches.0.map`. */
  readonly field: string;
  /** Compiles a CEL expression. */
  readonly compile: (expression: string) => Expression;
  /** Runs work over an object that may be huge. @throws HandlerCutOffError when it takes too long. */
  readonly withinTime: <T>(object: KubernetesObject, work: () => T) => T;
}

export function createMapper(map: WatchMap, scope: KeyScope, tools: MapperTools): Mapper {
  switch (map.by) {
    case 'index':
      return indexMapper(map.index, scope);
    case 'selector':
      return selectorMapper(map.path, map.orphansOnly ?? false, scope);
    case 'owner':
      return ownerMapper(map.owner, scope);
    case 'label':
      return valueMapper(`label:${map.label}`, scope);
    case 'annotation':
      return valueMapper(`annotation:${map.annotation}`, scope);
    case 'field':
      return valueMapper(`field:${map.path}`, scope, tools);
    case 'related':
      return relatedMapper;
    case 'all':
      return { needsOld: () => false, targets: () => scope.lookups({ entries: [] }) };
    case 'cel':
      return expressionMapper(tools.compile(map.expression), scope, tools);
  }
}

/**
 * Maps an object to its owners of the scope's kind: controller-runtime's EnqueueRequestForOwner, with or without
 * OnlyControllerOwner (pkg/handler/enqueue_owner.go). An owner is named by group and kind; the version it was written
 * with does not matter.
 */
export function ownerMapper(choice: OwnerChoice = 'controller', scope: KeyScope): Mapper {
  const { kind, namespaced } = scope.resource;
  const group = groupOf(scope.resource);
  return {
    // The index entry names the controlling owner and no other owners.
    needsOld: (object, old) => choice === 'any' || !hasController(old, controllerOf(object)?.uid),
    targets({ metadata }) {
      const all = metadata.ownerReferences ?? [];
      const chosen = choice === 'any' ? all : all.filter(({ controller }) => controller === true).slice(0, 1);
      const owners = chosen
        .filter((owner) => owner.kind === kind && groupOf(owner) === group)
        .map(({ name }) => withNamespace(name, namespaced ? metadata.namespace : undefined));
      return scope.keys(owners);
    },
  };
}

const CONTROLLER_INDEX = controllerIndex('');

function hasController({ indexEntries }: ObjectEntry, uid: string | undefined): boolean {
  const found = indexEntries.filter((entry) => entry.startsWith(CONTROLLER_INDEX));
  return uid === undefined ? found.length === 0 : found.length === 1 && found[0] === controllerIndex(uid);
}

function withNamespace(name: string, namespace: string | undefined): ObjectKey {
  return namespace === undefined ? { name } : { namespace, name };
}

/** A cluster-scoped object may be referred to from any namespace, a namespaced one from its own. */
const namespaceFor = ({ metadata }: KubernetesObject, { resource }: KeyScope): string | undefined =>
  resource.namespaced ? metadata.namespace : undefined;

/**
 * Maps an object to the keys that name it in a declared index. controller-runtime leaves this to
 * EnqueueRequestsFromMapFunc and the author's own List.
 */
function indexMapper(index: IndexSpec, scope: KeyScope): Mapper {
  return {
    // A name never changes.
    needsOld: () => false,
    targets: (object) => {
      const entries = [declaredIndex(index, object.metadata.name)];
      return scope.lookups({ entries, declared: index }, namespaceFor(object, scope));
    },
  };
}

/** An object with more or longer labels maps to all keys, because each lookup stores the labels. */
const MAX_LABELS = { count: 50, length: 4096 };

function areMany(labels: Readonly<Record<string, string>>): boolean {
  const all = Object.entries(labels);
  if (all.length > MAX_LABELS.count) return true;
  return all.reduce((sum, [key, value]) => sum + key.length + value.length, 0) > MAX_LABELS.length;
}

/** The index of the reconciled kind that a map needs to find its objects. */
export function indexOfMap(map: WatchMap): IndexSpec | undefined {
  if (map.by === 'index') return map.index;
  // Lookups for orphans are rare, and the index would put each object of the kind into one more set.
  return map.by === 'selector' && !map.orphansOnly ? `selector:${map.path}` : undefined;
}

function selectorMapper(path: string, orphansOnly: boolean, scope: KeyScope): Mapper {
  const index = indexOfMap({ by: 'selector', path, orphansOnly });
  const wanted = (labels: Readonly<Record<string, string>>): Omit<Lookup, 'view' | 'entries'> => {
    if (index === undefined) return { selector: { path, labels } };
    return { declared: index, selector: { path, labels } };
  };
  return {
    // With `orphansOnly`, an object that had a controller and has one now maps to no keys.
    needsOld: (object, old) => !(orphansOnly && controllerOf(object) && !hasController(old, undefined)),
    targets(object) {
      if (orphansOnly && controllerOf(object)) return [];
      const { labels = {} } = object.metadata;
      return scope.lookups({ entries: [], ...(areMany(labels) ? {} : wanted(labels)) }, namespaceFor(object, scope));
    },
  };
}

/**
 * Maps an object to the keys that have named it at run time. Whether the old labels matter depends on the keys' rules.
 */
const relatedMapper: Mapper = {
  needsOld: () => true,
  targets(object) {
    const { namespace, name, labels = {} } = object.metadata;
    const place = withNamespace(name, namespace);
    return [{ lookup: { related: { kind: formatKind(object), ...place, ...(areMany(labels) ? {} : { labels }) } } }];
  },
};

/** Maps an object to the keys that it names: the values that it would have in this index. */
function valueMapper(spec: IndexSpec, scope: KeyScope, tools?: MapperTools): Mapper {
  const targets = (object: KubernetesObject): readonly Target[] => allNamed(indexValues(object, spec), object, scope);
  return {
    needsOld: () => true,
    // Following a path may visit all of an object.
    targets: tools ? (object) => tools.withinTime(object, () => targets(object)) : targets,
  };
}

/**
 * If an expression fails, the object maps to all keys, because too many runs are better than a lost one. An expression
 * that is cut off makes its controller miss the change.
 */
function expressionMapper(expression: Expression, scope: KeyScope, { field }: MapperTools): Mapper {
  return {
    needsOld: () => true,
    targets: (object) => {
      const value = expression.evaluate(object, undefined);
      if (value === CUT_OFF) throw new HandlerCutOffError(`${field}.expression`, 'was cut off: it took too long');
      if (value === undefined) return scope.lookups({ entries: [] });
      return allNamed([value].flat().map(String), object, scope);
    },
  };
}

/** An object that names more keys maps to all keys, because each name would be stored as a wakeup. */
const MAX_NAMES = 10_000;

function allNamed(values: readonly string[], object: KubernetesObject, scope: KeyScope): readonly Target[] {
  if (values.length > MAX_NAMES) return scope.lookups({ entries: [] });
  return scope.keys(values.flatMap((value) => named(value, object, scope)));
}

/** Longer text, or text with white space, is meant for people and names no object. */
const REFERENCE = /^\S{1,253}$/;

/**
 * `name`, in the object's own namespace if both have one, or `namespace/name`. A value that is not a name maps to
 *   nothing.
 */
function named(value: string, object: KubernetesObject, scope: KeyScope): ObjectKey[] {
  const key = decodeObjectKey(value);
  if (!key || !REFERENCE.test(key.name)) return [];
  return [key.namespace === undefined ? withNamespace(key.name, namespaceFor(object, scope)) : key];
}
