import {
  controllerOf,
  type FieldRequirement,
  fulfils,
  groupOf,
  isControlledBy,
  type KubernetesObject,
  type LabelRequirement,
  namespaceOfKey,
  type OwnerIdentity,
  type OwnerReference,
  type Resource,
} from '../core/index.ts';
import { selectableValue } from './selectable-fields.ts';
import {
  controllerIndex,
  declaredIndex,
  type IndexSpec,
  indexValues,
  KEPT_OUT_INDEX,
  labelValue,
  namespaceIndex,
  orphanIndex,
  uncountedIndex,
} from './cache-layout.ts';

/** A kind in all its versions. */
interface GroupKind {
  /** `apps`; '' for the core group. */
  readonly group: string;
  readonly kind: string;
}

/** @returns the cluster-scoped ones of these kinds. */
export function clusterScoped(resources: readonly Resource[]): GroupKind[] {
  return resources.flatMap((each) => (each.namespaced ? [] : [{ group: groupOf(each), kind: each.kind }]));
}

/** Selects objects of a view. All conditions must be met; without conditions, all objects are selected. */
export interface Selection {
  readonly namespace?: string;
  /** The owner that manages the objects. A namespaced owner has objects in its own namespace only. */
  readonly controlledBy?: OwnerIdentity;
  /**
   * The kinds that the owner may have. Default: any. For a UID without a namespace they are cluster-scoped, because an
   * author may copy the UID of a namespaced owner into objects of another namespace.
   */
  readonly ownerKinds?: readonly GroupKind[];
  /** Namespace of objects that no controller manages. */
  readonly orphansIn?: string;
  /** A value in a declared index; `labels`: the selector's labels, in the index of all labels. */
  readonly index?: { readonly spec: IndexSpec; readonly value: string } | 'labels';
  readonly labels?: readonly LabelRequirement[];
  readonly fields?: readonly FieldRequirement[];
}

/** Whether an object is selected. */
export function isSelected(object: KubernetesObject, selection: Selection): boolean {
  const { namespace, controlledBy, ownerKinds, orphansIn, index, labels = [], fields = [] } = selection;
  const { metadata } = object;
  if (namespace !== undefined && metadata.namespace !== namespace) return false;
  if (controlledBy !== undefined && !isControlledBy(object, controlledBy)) return false;
  if (ownerKinds !== undefined && !isOfKinds(controllerOf(object), ownerKinds)) return false;
  if (orphansIn !== undefined && (metadata.namespace !== orphansIn || controllerOf(object))) return false;
  if (typeof index === 'object' && !indexValues(object, index.spec).includes(index.value)) return false;
  if (!fulfils(labels, metadata.labels)) return false;
  return fields.every(
    ({ field, operator, value }) => (selectableValue(object, field) === value) === (operator === '='),
  );
}

/** The version may differ: a reference may name any version of the owner's kind. */
function isOfKinds(owner: OwnerReference | undefined, kinds: readonly GroupKind[]): boolean {
  return kinds.some(({ group, kind }) => kind === owner?.kind && group === groupOf(owner));
}

/** The only namespace that can have selected objects; undefined when several can. */
export function namespaceOfSelection({
  namespace,
  orphansIn,
  controlledBy,
}: Pick<Selection, 'namespace' | 'orphansIn' | 'controlledBy'>): string | undefined {
  return namespace ?? orphansIn ?? (controlledBy?.metadata.namespace || undefined);
}

/**
 * Whether a key may be selected, judged by namespace and name, which never change.
 * @param key `namespace/name`, or `name`.
 */
export function isKeySelected(key: string, { namespace, fields = [] }: Selection): boolean {
  const own = namespaceOfKey(key) ?? '';
  if (namespace !== undefined && own !== namespace) return false;
  return fields.every(({ field, operator, value }) => {
    if (!isKeyField(field)) return true;
    const found = field === 'metadata.name' ? key.slice(key.indexOf('/') + 1) : own;
    return (found === value) === (operator === '=');
  });
}

const isKeyField = (field: string): boolean => field === 'metadata.name' || field === 'metadata.namespace';

/**
 * The conditions that `isKeySelected` leaves open: index entries that an object must carry, and whether there are
 * `more` conditions on the object itself.
 */
export function beyondKey({ namespace: _, ...selection }: Selection): { indexes: string[]; more: boolean } {
  const { always, declared } = indexesOf(selection);
  const { labels = [], fields = [] } = selection;
  return {
    indexes: [...always, ...declared],
    more: selection.ownerKinds !== undefined || labels.length > 0 || fields.some(({ field }) => !isKeyField(field)),
  };
}

/** The selection with its conditions on metadata alone. An object that is kept out of the cache can meet no others. */
export function onMetadata({ index, fields, ...selection }: Selection): Selection {
  return {
    ...selection,
    ...(index && !specOf(index).startsWith('field:') ? { index } : {}),
    ...(fields ? { fields: fields.filter(({ field }) => isKeyField(field)) } : {}),
  };
}

/** The declared index that the selection names. */
export function declaredIndexOf({ index }: Selection): IndexSpec | undefined {
  return index && specOf(index);
}

const specOf = (index: NonNullable<Selection['index']>): IndexSpec => (index === 'labels' ? index : index.spec);

/** Index entries of labels in one query. It may find more objects, so further labels are compared with the objects. */
const MOST_LABELS = 8;

/** Index entries for the labels that must have one certain value. */
function labelEntries(labels: readonly LabelRequirement[]): string[] {
  const entries = labels.flatMap(({ key, operator, values: [only, ...others] }) =>
    operator === 'In' && only !== undefined && others.length === 0
      ? [declaredIndex('labels', labelValue(key, only))]
      : [],
  );
  return entries.slice(0, MOST_LABELS);
}

/** The index entries that all selected objects carry: of indexes that every view has, and of the declared one. */
export function indexesOf(selection: Selection): { always: string[]; declared: string[] } {
  const { namespace, controlledBy, orphansIn, index, labels = [] } = selection;
  const always = [];
  if (controlledBy !== undefined) always.push(controllerIndex(controlledBy.metadata.uid));
  if (orphansIn !== undefined) always.push(orphanIndex(orphansIn));
  const declared: string[] = [];
  if (index === 'labels') declared.push(...labelEntries(labels));
  else if (index !== undefined) declared.push(declaredIndex(index.spec, index.value));
  // A namespace alone is served by the order of the keys, which is the order of the answer too.
  const places = new Set([namespace, controlledBy?.metadata.namespace || undefined]);
  for (const place of places)
    if (place !== undefined && always.length + declared.length > 0) always.push(namespaceIndex(place));
  return { always, declared };
}

/** Index entries. An object answers the query when it carries all of them. */
export type EntryQuery = readonly string[];

/**
 * The queries that find all selected objects together, and the objects that are kept out of the cache and may be
 * selected; none when no index covers the selection. They may find more objects.
 * @param isFilled whether the declared index is complete. Default true.
 */
export function indexQueries(selection: Selection, isFilled = true): EntryQuery[] {
  const { always, declared } = indexesOf(selection);
  const spec = declaredIndexOf(selection);
  if (spec === undefined || declared.length === 0 || !isFilled) return always.length === 0 ? [] : [always];
  const queries = [
    [...always, ...declared],
    [...always, uncountedIndex(spec)],
  ];
  // The mark of an object that is kept out has the object's metadata, and no other field.
  return spec.startsWith('field:') ? [...queries, [...always, KEPT_OUT_INDEX]] : queries;
}
