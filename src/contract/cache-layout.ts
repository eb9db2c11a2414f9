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
   * HASH: `version` (up to which the view is complete), `writerId`, `incarnation`, `runId`, and `indexes`: the complete
   * declared indexes (JSON, each a `MadeIndex`); for any other index, readers filter objects. `filling`: the incomplete
   * indexes that may have entries (JSON, or empty), because they are being filled or were withdrawn. `unserved`: 1
   * while the server is known not to serve the resource. `encryptedBy`: the only key with which the objects of an
   * encrypted view can be read. `position`: see `POSITION`; `process`: the Redis process that has all writes up to it
   * (`lua/reclaim.lua`).
   */
  readonly view: string;
  /**
   * HASH: object key -> encoded object (`node/codec`); and under `POSITION` the view's position while the view may be
   * read, so that one command gets an object and knows both.
   */
  readonly objects: string;
  /** HASH: object key -> `ObjectEntry`, encoded. */
  readonly entries: string;
  /** ZSET, all scores 0: object keys in order, for lists that continue. */
  readonly order: string;
  /** STREAM: wakeups that belong to applied changes and are not yet in a queue. */
  readonly outbox: string;
  /** What an index entry is appended to, to name the SET of keys that carry it. */
  readonly indexPrefix: string;
  /**
   * What an observed field is appended to, to name its HASH: object key -> `time uid value`, the time in milliseconds
   * of the gateways at which the value changed last (`observed.ts`), or `time uid` and a line `time item` for each item
   * of a list that has a time of its own.
   */
  readonly observedPrefix: string;
}

/**
 * The field of `objects` with the view's position. It is there while the view may be read: the first list is complete,
 * no list of rewound data is under way, and the Redis process has all writes. No object has this key.
 *
 * The position is a whole number that grows with each write to the view. A view with the same position or a higher one
 * shows all that it showed at the position, whatever Redis has lost in between.
 */
export const POSITION = '';

/**
 * The common prefix of a view's keys, hash tag included. `settings` is a hash of what the view was configured to hold.
 */
export function viewPrefix(view: {
  keyPrefix: string;
  clusterId: string;
  resource: GroupVersionKind;
  settings: string;
}): string {
  return `{${view.keyPrefix}:v1:${view.clusterId}:${formatKind(view.resource)}:${view.settings}}`;
}

/** The kind of a view, as `apiVersion/Kind`. Undefined for text that is no prefix of a view. */
export function kindOfView(prefix: string): string | undefined {
  return /^\{[^:]+:v1:[^:]+:([^:]+):[^:]+\}$/.exec(prefix)?.[1];
}

/** The keys in Redis that a gateway has beside its views and queues. */
export function gatewayKeys({ keyPrefix, clusterId }: { keyPrefix: string; clusterId: string }): {
  /** SET: the prefixes of all its views. */
  readonly views: string;
  /** HASH: the Redis process and the controllers that have dispatched through it. */
  readonly registry: string;
  /** Begins the keys of browsers' sessions: a STRING for each, and for each user a LIST of these keys. */
  readonly sessions: string;
  /** HASH: the last replay of dead letters of each controller. */
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
 * The indexes that every view has: by namespace, by controller, and of those that have none in a namespace. client-go's
 * informers have the first; kube-controller-manager adds the others to find the pods of an owner and those to adopt
 * (pkg/controller/controller_utils.go, `PodControllerIndex`).
 */
export const namespaceIndex = (namespace: string): string => `namespace:${namespace}`;
/** The namespace that index entries name. */
export const namespaceOf = (entries: readonly string[]): string | undefined =>
  entries.find((entry) => entry.startsWith('namespace:'))?.slice('namespace:'.length);
export const controllerIndex = (ownerUid: string): string => `controller:${ownerUid}`;
export const orphanIndex = (namespace: string): string => `orphan:${namespace}`;

/** The index of objects that are kept out of the cache: every view has it. */
export const KEPT_OUT_INDEX = 'kept-out';
/**
 * The index of the objects among them that are kept out only because memory is short. Its entry is the last of an
 * object: the apply script replaces such a mark by the same version of the object.
 */
export const LEFT_OUT_INDEX = 'left-out';

/**
 * An index that a controller declares. What it is made of is its name, so two controllers share one without knowing.
 *
 * - `field:PATH`, `label:KEY`, `annotation:KEY`: by the value of a field (a path with dots; a list on the way gives
 *   each of its values), of a label or of an annotation.
 * - `labels`: by each label, with values `key=value`.
 * - `selector:PATH`: by the label selector at the path, with one label `key=value` that it demands, or with an empty
 *   value if it demands no single one. The gateway makes it for watches that map by selector; none can be declared.
 */
export type IndexSpec =
  `field:${string}` | `label:${string}` | `annotation:${string}` | 'labels' | `selector:${string}`;

/**
 * A declared index as it is made: of all objects, or (`NAMESPACE/` before it) of those in one namespace, where its
 * users may read no others. No name of an index has a slash before its colon.
 */
export type MadeIndex = IndexSpec | `${string}/${IndexSpec}`;

/** Whether a declared index, as far as it is made, has all objects of the namespace; undefined: of all namespaces. */
export function isMade(made: readonly string[], spec: IndexSpec, namespace: string | undefined): boolean {
  return made.includes(spec) || (namespace !== undefined && made.includes(`${namespace}/${spec}`));
}

/** The declared indexes in which objects of the namespace stand. */
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

/** The entry of a declared index under one value. Values are escaped: entries are kept line by line. */
export const declaredIndex = (spec: IndexSpec, value: string): string =>
  `${spec}=${encodeURIComponent(value.toWellFormed())}`;

/**
 * The entry of an object that has too many values in a declared index (`indexEntriesOf`), in their place. A reader of
 * the index looks at these objects as well. No value is escaped to this text.
 */
export const uncountedIndex = (spec: IndexSpec): string => `${spec}=/`;

/** The values under which an object stands in a declared index, each once; none when it has no such field. */
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

/** The value of a selector in its index; none for one that selects nothing. */
function demandedLabel(value: unknown): string[] {
  const selector = asLabelSelector(value);
  if (!selector) return [];
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const demanded = Object.entries(matchLabels).map(([key, only]) => labelValue(key, only));
  for (const { key, operator, values: [only, ...others] = [] } of matchExpressions) {
    if (operator === 'In' && typeof only === 'string' && others.length === 0) demanded.push(labelValue(key, only));
  }
  // The longest tells most, as a rule: `app=payments-api` more than `tier=web`.
  return [demanded.reduce((longest, each) => (each.length > longest.length ? each : longest), '')];
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
 * Values, and in the place of a list its items. In a loop: an object may hold a list in a list ten thousand times over.
 */
function itemsOf(values: readonly unknown[]): unknown[] {
  const found: unknown[] = [];
  const left = values.toReversed();
  while (left.length > 0) {
    const value = left.pop();
    if (!Array.isArray(value)) found.push(value);
    else for (let at = value.length - 1; at >= 0; at -= 1) left.push(value[at]);
  }
  return found;
}

/**
 * Bounds of the entries that the values of an object's lists make, in all declared indexes together: one entry takes
 * some 250 bytes of Redis and 5 us of its time. So the entries of an object take about as much as the object itself, or
 * as those of a small list.
 */
const LIST_ENTRIES = { bytesEach: 256, least: 32, most: 1000 };

/**
 * The index entries of an object, `name:value`. The applier keeps the SETs in step with them. A declared index in which
 * the object has several values gets them as long as there is room, those with few values first; the others get
 * `uncountedIndex`.
 * @param valuesOf undefined for an index whose values are not to be found: it gets `uncountedIndex`. Default: all are.
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
    if (!values) entries.push(uncountedIndex(spec));
    else if (values.length > 1) lists.push({ spec, values });
    else for (const value of values) entries.push(declaredIndex(spec, value));
  }
  if (lists.length === 0) return entries;
  let room = listEntriesOf(
    object,
    lists.reduce((sum, { values }) => sum + values.length, 0),
  );
  for (const { spec, values } of lists.toSorted((a, b) => a.values.length - b.values.length)) {
    room -= values.length;
    if (room < 0) entries.push(uncountedIndex(spec));
    else for (const value of values) entries.push(declaredIndex(spec, value));
  }
  return entries;
}

/** How many of the entries that an object wants for its lists it may have. */
function listEntriesOf(object: KubernetesObject, wanted: number): number {
  const { bytesEach, least, most } = LIST_ENTRIES;
  if (wanted <= least) return wanted;
  return Math.min(most, Math.max(least, Math.floor(formatJson(object).length / bytesEach)));
}

/** The data of a cached object that the applier needs without decoding the object. */
export interface ObjectEntry {
  readonly resourceVersion: string;
  readonly uid: string;
  /** Carries a deletionTimestamp: a delete of it has been seen. */
  readonly terminating: boolean;
  readonly indexEntries: readonly string[];
}

/**
 * Lines: version, uid, `T` or nothing, one index entry each. The apply script reads this form too. What would be more
 * than a line is left out, so that no object can write the lines of another part.
 */
export function encodeEntry({ resourceVersion, uid, terminating, indexEntries }: ObjectEntry): string {
  const lines = indexEntries.filter((entry) => !entry.includes('\n'));
  return [resourceVersion, isUid(uid) ? uid : '', terminating ? 'T' : '', ...lines].join('\n');
}

export function decodeEntry(text: string): ObjectEntry {
  const [resourceVersion = '', uid = '', terminating = '', ...indexEntries] = text.split('\n');
  return { resourceVersion, uid, terminating: terminating === 'T', indexEntries };
}
