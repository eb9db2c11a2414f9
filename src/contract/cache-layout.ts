import {
  asLabelSelector,
  controllerOf,
  fieldAt,
  formatJson,
  formatKind,
  type GroupVersionKind,
  isFieldPath,
  isLabelKey,
  isUid,
  type KubernetesObject,
  ownValue,
} from '../core/index.ts';

/**
 * The cache's key layout in Redis, version 1. Only the gateway writes these keys; readers derive them
 * from the view's prefix, which a trigger carries. All keys of a view share one hash tag, so that a script may touch
 * them together in a Redis Cluster.
 */
export interface ViewKeys {
  /**
   * HASH: `version` (the view is complete up to it), `writerId`, `incarnation`, `runId`, and `indexes`: the complete
   * declared indexes (JSON, each a `MadeIndex`); for any other index, readers filter objects. `filling`: the incomplete
   * indexes that may have entries (JSON, or empty), because they are being filled or were withdrawn. `unserved`: 1
   * while the server is known not to serve the resource. `encryptedBy`: the only key that can decrypt the objects of an
   * encrypted view. `position`: see `POSITION`; `process`: the Redis process that has all writes up to it
   * (`lua/reclaim.lua`). `kept-out:NAMESPACE` and `left-out:NAMESPACE`: see `markCount`.
   */
  readonly view: string;
  /**
   * HASH: object key -> encoded object (`node/codec`). The field `POSITION` has the view's position while the view may
   * be read, so that one command gets an object and knows both.
   */
  readonly objects: string;
  /** HASH: object key -> `ObjectEntry`, encoded. */
  readonly entries: string;
  /** ZSET, all scores 0: object keys in order, for paged lists. */
  readonly order: string;
  /** STREAM: wakeups of applied changes that are not yet in a queue. */
  readonly outbox: string;
  /** Prefix of an index entry's SET, which has the keys of the objects with that entry. */
  readonly indexPrefix: string;
  /**
   * Prefix of an observed field's HASH: object key -> `time uid value`. The time, in milliseconds of the gateways'
   * clock, is the time of the last change (`observed.ts`). For a list whose items have their own times: `time uid`, and
   * a line `time item` for each of these items.
   */
  readonly observedPrefix: string;
}

/**
 * The field of `objects` with the view's position. It exists while the view may be read: the first list is complete,
 * no list of rewound data is under way, and the Redis process has all writes. No object has this key.
 *
 * The position is a whole number that grows with each write to the view. A view at this position or a higher one shows
 * all that it showed at the position, whatever Redis has lost in between.
 */
export const POSITION = '';

/**
 * The common prefix of a view's keys, hash tag included. `settings` is a hash of the settings that decide its contents.
 */
export function viewPrefix(view: {
  keyPrefix: string;
  clusterId: string;
  resource: GroupVersionKind;
  settings: string;
}): string {
  return `{${view.keyPrefix}:v1:${view.clusterId}:${formatKind(view.resource)}:${view.settings}}`;
}

/** The kind of a view, as `apiVersion/Kind`. Undefined for text that is no view's prefix. */
export function kindOfView(prefix: string): string | undefined {
  return /^\{[^:]+:v1:[^:]+:([^:]+):[^:]+\}$/.exec(prefix)?.[1];
}

/** The gateway's own keys in Redis, without its views and queues. */
export function gatewayKeys({ keyPrefix, clusterId }: { keyPrefix: string; clusterId: string }): {
  /** SET: the prefixes of all views of the gateway. */
  readonly views: string;
  /** HASH: the Redis process and the controllers that have dispatched through it. */
  readonly registry: string;
  /** Prefix of the keys of browser sessions: a STRING for each session, and for each user a LIST of these keys. */
  readonly sessions: string;
  /** HASH: each controller's last replay of dead letters. */
  readonly replays: string;
} {
  const prefix = `{${keyPrefix}:v1:${clusterId}}`;
  return {
    views: `${prefix}:views`,
    registry: `${prefix}:gateway`,
    sessions: `${prefix}:session:`,
    replays: `${prefix}:replays`,
  };
}

export function viewKeys(prefix: string): ViewKeys {
  return {
    view: `${prefix}:view`,
    objects: `${prefix}:objects`,
    entries: `${prefix}:entries`,
    order: `${prefix}:order`,
    outbox: `${prefix}:outbox`,
    indexPrefix: `${prefix}:index:`,
    observedPrefix: `${prefix}:observed:`,
  };
}

/**
 * Indexes of every view: objects by namespace, by controller, and, in each namespace, without a controller. client-go's
 * informers have the first; kube-controller-manager adds the others to find the pods of an owner and the pods to adopt
 * (pkg/controller/controller_utils.go, `PodControllerIndex`).
 */
export const namespaceIndex = (namespace: string): string => `namespace:${namespace}`;
/** The namespace in a list of index entries. */
export const namespaceOf = (entries: readonly string[]): string | undefined =>
  entries.find((entry) => entry.startsWith('namespace:'))?.slice('namespace:'.length);
export const controllerIndex = (ownerUid: string): string => `controller:${ownerUid}`;
export const orphanIndex = (namespace: string): string => `orphan:${namespace}`;

/**
 * The part of `ViewKeys.order` behind the key `after`, as ZRANGEBYLEX takes it. Default: of all namespaces, from the
 * first key.
 */
export function keyRange(namespace?: string, after = ''): [min: string, max: string] {
  const start = namespace === undefined ? '' : `${namespace}/`;
  const min = after >= start && after !== '' ? `(${after}` : start === '' ? '-' : `[${start}`;
  // "0" is the character that follows "/".
  return [min, namespace === undefined ? '+' : `(${namespace}0`];
}

/** The index of objects that are kept out of the cache. Every view has it. */
export const KEPT_OUT_INDEX = 'kept-out';
/**
 * The index of objects that are kept out only because memory is short; they are in `KEPT_OUT_INDEX` too. Its entry is
 * the last of an object: the apply script replaces such a mark by the same version of the object.
 */
export const LEFT_OUT_INDEX = 'left-out';
/** The field of `ViewKeys.view` with the number of objects of the namespace in one of these two indexes. None: 0. */
export const markCount = (index: string, namespace: string): string => `${index}:${namespace}`;

/**
 * An index that a controller declares. Its name is its definition, so controllers with the same definition share it.
 *
 * - `field:PATH`, `label:KEY`, `annotation:KEY`: by the value of a field (a path with dots; a list on the way gives
 *   each of its values), of a label or of an annotation.
 * - `labels`: by each label, with values `key=value`.
 * - `selector:PATH`: by the label selector at the path, with one required label `key=value` as its value, or the empty
 *   value if it requires no single label. The gateway makes it for watches that map by selector; none can be declared.
 */
export type IndexSpec =
  `field:${string}` | `label:${string}` | `annotation:${string}` | 'labels' | `selector:${string}`;

/**
 * A declared index and its extent: all objects, or, with `NAMESPACE/` before it, the objects of one namespace, when its
 * users may read no others. No name of an index has a slash before its colon.
 */
export type MadeIndex = IndexSpec | `${string}/${IndexSpec}`;

/** Whether a declared index is complete for the namespace, or, if undefined, for all namespaces. */
export function isMade(made: readonly string[], spec: IndexSpec, namespace: string | undefined): boolean {
  return made.includes(spec) || (namespace !== undefined && made.includes(`${namespace}/${spec}`));
}

/** The declared indexes that cover objects of the namespace. */
export function madeIn(made: readonly MadeIndex[], namespace: string | undefined): IndexSpec[] {
  const specs = made.flatMap((each): IndexSpec[] => {
    const { place, spec } = parseMade(each);
    return place === undefined || place === namespace ? [spec] : [];
  });
  return [...new Set(specs)];
}

/** @returns the declared index, and the namespace if only its objects have entries. */
export function parseMade(made: MadeIndex): { place: string | undefined; spec: IndexSpec } {
  const [, place, spec = made] = /^([^:/]+)\/(.*)$/s.exec(made) ?? [];
  return { place, spec: spec as IndexSpec };
}

/** Whether a list may name this index. */
export function isIndexSpec(text: string): text is IndexSpec {
  if (text === 'labels') return true;
  const colon = text.indexOf(':');
  const is = { field: isFieldPath, label: isLabelKey, annotation: isLabelKey };
  return ownValue(is, text.slice(0, colon))?.(text.slice(colon + 1)) ?? false;
}

/** The entry of a declared index for one value. Values are escaped, because entries are stored line by line. */
export const declaredIndex = (spec: IndexSpec, value: string): string =>
  `${spec}=${encodeURIComponent(value.toWellFormed())}`;

/**
 * Replaces an object's entries in a declared index if it has too many values (`indexEntriesOf`). A reader of the index
 * examines these objects as well. No value is escaped to this text.
 */
export const uncountedIndex = (spec: IndexSpec): string => `${spec}=/`;

/** The distinct values of an object in a declared index; none when it has no such field. */
export function indexValues(object: KubernetesObject, spec: IndexSpec): string[] {
  const colon = spec.indexOf(':');
  const name = spec.slice(colon + 1);
  const { labels, annotations } = object.metadata;
  if (spec === 'labels') return labelValues(labels);
  switch (spec.slice(0, colon)) {
    case 'selector':
      return demandedLabel(fieldAt(object, name));
    case 'label':
      return scalars([ownValue(labels, name)]);
    case 'annotation':
      return scalars([ownValue(annotations, name)]);
    default:
      return scalars(valuesAt(object, name));
  }
}

/** A label's value in the index `labels`. */
export const labelValue = (key: string, value: string): string => `${key}=${value}`;

function labelValues(labels: Readonly<Record<string, unknown>> = {}): string[] {
  return Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? labelValue(key, value) : []));
}

/** The value of a selector in its index. A selector that selects nothing has none. */
function demandedLabel(value: unknown): string[] {
  const selector = asLabelSelector(value);
  if (!selector) return [];
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const demanded = Object.entries(matchLabels).map(([key, only]) => labelValue(key, only));
  for (const { key, operator, values: [only, ...others] = [] } of matchExpressions) {
    if (operator === 'In' && typeof only === 'string' && others.length === 0) demanded.push(labelValue(key, only));
  }
  // The longest label is usually the most selective: `app=payments-api` more than `tier=web`.
  const most = demanded.reduce((longest, each) => (each.length > longest.length ? each : longest), '');
  // No object has such a label.
  return most.length > MAX_INDEX_VALUE ? [] : [most];
}

function scalars(values: readonly unknown[]): string[] {
  const found = values.filter((value) => ['string', 'number', 'bigint', 'boolean'].includes(typeof value));
  return [...new Set(found.map(String))];
}

/** The values at a path in an object. A list on the way, or at the end, contributes the values of all its items. */
export function valuesAt(object: unknown, path: string): unknown[] {
  let values = itemsOf([object]);
  for (const name of path.split('.')) {
    values = itemsOf(
      values.map((value) => (typeof value === 'object' ? ownValue(value as Record<string, unknown>, name) : undefined)),
    );
  }
  return values;
}

/**
 * Replaces lists by their items, and leaves out absent values: a long path would pass over each of them with each of
 * its names. A loop, not recursion: lists may be nested ten thousand levels deep.
 */
function itemsOf(values: readonly unknown[]): unknown[] {
  const found: unknown[] = [];
  const left = values.toReversed();
  while (left.length > 0) {
    const value = left.pop();
    if (value === undefined || value === null) continue;
    if (!Array.isArray(value)) found.push(value);
    else for (let at = value.length - 1; at >= 0; at -= 1) left.push(value[at]);
  }
  return found;
}

/** Characters of a value in an index: many readers take entries to be short. UIDs, names and labels are. */
const MAX_INDEX_VALUE = 1024;

/**
 * Bounds of the entries that the values of an object's lists make, in all declared indexes together: one entry takes
 * some 250 bytes of Redis besides the object's key, and 5 us of its time. So the entries of an object take about as
 * much as the object itself, or as the entries of a small list. Its name is the value, encoded, which may be long.
 */
const LIST_ENTRIES = { bytesEach: 256, least: 32, most: 1000, charactersEach: 1024, leastCharacters: 32 * 1024 };

/**
 * The index entries of an object, `name:value`. The applier keeps the SETs in step with them. If the object has several
 * values in a declared index, they get entries until the bounds are reached, indexes with few values first; the other
 * indexes get `uncountedIndex`, and so does an index with a value of more than `MAX_INDEX_VALUE`.
 * @param valuesOf undefined when the values of an index are unknown: it gets `uncountedIndex`. Default: `indexValues`.
 */
export function indexEntriesOf(
  object: KubernetesObject,
  declared: readonly IndexSpec[] = [],
  valuesOf: (object: KubernetesObject, spec: IndexSpec) => readonly string[] | undefined = indexValues,
): string[] {
  const { namespace } = object.metadata;
  const owner = controllerOf(object);
  const entries = namespace ? [namespaceIndex(namespace)] : [];
  // The apiserver takes any text for the UID of an owner; a text that is no UID owns nothing.
  if (owner) entries.push(...(isUid(owner.uid) ? [controllerIndex(owner.uid)] : []));
  else if (namespace) entries.push(orphanIndex(namespace));
  const lists: { readonly spec: IndexSpec; readonly values: readonly string[] }[] = [];
  for (const spec of declared) {
    const values = valuesOf(object, spec);
    if (!values || values.some(({ length }) => length > MAX_INDEX_VALUE)) entries.push(uncountedIndex(spec));
    else if (values.length > 1) lists.push({ spec, values });
    else for (const value of values) entries.push(declaredIndex(spec, value));
  }
  if (lists.length === 0) return entries;
  let room = listEntriesOf(
    object,
    lists.reduce((sum, { values }) => sum + values.length, 0),
  );
  let characters = Math.max(LIST_ENTRIES.leastCharacters, room * LIST_ENTRIES.charactersEach);
  for (const { spec, values } of lists.toSorted((a, b) => a.values.length - b.values.length)) {
    room -= values.length;
    const made = room < 0 ? [] : values.map((value) => declaredIndex(spec, value));
    const length = made.reduce((sum, entry) => sum + entry.length, 0);
    if (room < 0 || length > characters) entries.push(uncountedIndex(spec));
    else {
      for (const entry of made) entries.push(entry);
      characters -= length;
    }
  }
  return entries;
}

/** How many entries an object may have for its lists. */
function listEntriesOf(object: KubernetesObject, wanted: number): number {
  const { bytesEach, least, most } = LIST_ENTRIES;
  if (wanted <= least) return wanted;
  const { namespace = '', name } = object.metadata;
  const each = Math.max(bytesEach, namespace.length + name.length);
  return Math.min(most, Math.max(least, Math.floor(formatJson(object).length / each)));
}

/** The data of a cached object that the applier needs without decoding the object. */
export interface ObjectEntry {
  readonly resourceVersion: string;
  readonly uid: string;
  /** The object has a deletionTimestamp: its deletion has begun. */
  readonly terminating: boolean;
  readonly indexEntries: readonly string[];
}

/**
 * Lines: version, uid, `T` or nothing, one index entry each. The apply script reads this form too. Values with a line
 * feed are left out, so that no object can write the lines of another part.
 */
export function encodeEntry({ resourceVersion, uid, terminating, indexEntries }: ObjectEntry): string {
  const lines = indexEntries.filter((entry) => !entry.includes('\n'));
  return [resourceVersion, isUid(uid) ? uid : '', terminating ? 'T' : '', ...lines].join('\n');
}

export function decodeEntry(text: string): ObjectEntry {
  const [resourceVersion = '', uid = '', terminating = '', ...indexEntries] = text.split('\n');
  return { resourceVersion, uid, terminating: terminating === 'T', indexEntries };
}
