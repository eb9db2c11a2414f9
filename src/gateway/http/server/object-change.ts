import {
  ApiError,
  isResourceVersion,
  type KubernetesObject,
  messageOf,
  type Resource,
  resourcePath,
} from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { ReadingTime } from '../cache-api/reading-time.ts';
import type { ObjectChange, Shown } from '../dashboard/data.ts';

export interface ObjectChangeOptions {
  readonly resource: Resource;
  readonly at: { readonly namespace?: string | undefined; readonly name: string };
  /** The version that the change gave the object; of a deletion that was seen the version of the deletion. */
  readonly version: string;
  readonly isDeletion: boolean;
  /** Whether pages show nothing but the metadata of this kind. */
  readonly metadataOnly: boolean;
  readonly client: Pick<ApiClient, 'measuredJson'>;
  /** Slows the reads down by their bytes. */
  readonly time: Pick<ReadingTime, 'paceBytes'>;
  /** The object as pages show it: called after the managers are read. */
  readonly shown: (object: KubernetesObject) => KubernetesObject;
}

const SERVER_MS = 3000;
/** An object of 1.5 MiB, and its managed fields. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Reads what a change has made of an object: the object at the version of the change and at the version before, as the
 * apiserver had it. The apiserver has old versions until etcd is compacted, after five minutes by default. So the cache
 * needs neither old objects nor `managedFields`.
 */
export async function objectChange(options: ObjectChangeOptions): Promise<Shown<ObjectChange>> {
  const { isDeletion, shown, version } = options;
  if (!isResourceVersion(version)) return { kind: 'hidden', reason: FORGOTTEN };
  try {
    // One after the other: each may have megabytes.
    const before = await objectAt(options, String(BigInt(version) - 1n));
    const after = await objectAt(options, version);
    if (isDeletion && after) return { kind: 'hidden', reason: UNSEEN };
    // Another etcd may have been restored since.
    const isThere = after ? after.metadata.resourceVersion === version : before !== undefined;
    if (!isThere) return { kind: 'hidden', reason: FORGOTTEN };
    const managers = managersOf(before, after);
    return { kind: 'shown', before: before && shown(before), after: after && shown(after), managers };
  } catch (error) {
    const isForgotten = error instanceof ApiError && error.code === 410;
    return { kind: 'hidden', reason: isForgotten ? FORGOTTEN : `The apiserver did not answer: ${messageOf(error)}` };
  }
}

/** Its reason has the last version that the cache had. */
const UNSEEN = 'The gateway did not see this deletion: a later list lacked the object, or had another one of its name.';
const FORGOTTEN = 'The apiserver does not have this version any more: by default it keeps versions for five minutes.';

/** A list of one name costs the server a read of one key. */
async function objectAt(
  { resource, at, client, metadataOnly, time }: ObjectChangeOptions,
  version: string,
): Promise<KubernetesObject | undefined> {
  const { value, bytes } = await client.measuredJson({
    path: resourcePath(resource, { namespace: at.namespace }),
    ...(metadataOnly && { accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1' }),
    query: {
      fieldSelector: `metadata.name=${escaped(at.name)}`,
      resourceVersion: version,
      resourceVersionMatch: 'Exact',
    },
    maxBytes: MAX_BYTES,
    signal: AbortSignal.timeout(SERVER_MS),
  });
  await time.paceBytes(bytes);
  const { items } = value as { readonly items: readonly KubernetesObject[] | null };
  const object = items?.find(
    ({ metadata: { name, namespace } }) => name === at.name && (!resource.namespaced || namespace === at.namespace),
  );
  const { apiVersion, kind } = resource;
  return object && { ...object, apiVersion, kind };
}

/** As `EscapeValue` of k8s.io/apimachinery/pkg/fields does: names of roles may have these characters. */
function escaped(value: string): string {
  return value.replaceAll(/[\\,=]/g, (character) => `\\${character}`);
}

/** An entry of `metadata.managedFields`, as far as it is one. */
interface Managed {
  readonly manager?: unknown;
  readonly operation?: unknown;
  readonly subresource?: unknown;
  readonly time?: unknown;
}

/**
 * Who has made a change, by field manager: the entries whose time the change has set. A manager that has set its own
 * fields twice within a second shows as one of the latest.
 */
function managersOf(before: KubernetesObject | undefined, after: KubernetesObject | undefined): string[] {
  const entries = (after?.metadata.managedFields ?? []) as readonly (Managed | null)[];
  const idOf = (entry: Managed | null): string => `${nameOf(entry)} ${String(entry?.operation)}`;
  const known = new Map(
    ((before?.metadata.managedFields ?? []) as readonly (Managed | null)[]).map((each) => [idOf(each), each?.time]),
  );
  const changed = entries.filter((each) => !known.has(idOf(each)) || known.get(idOf(each)) !== each?.time);
  const latest = entries
    .map((each) => String(each?.time))
    .toSorted()
    .at(-1);
  const found = changed.length > 0 ? changed : entries.filter((each) => String(each?.time) === latest);
  return [...new Set(found.map(nameOf))].slice(0, MOST_MANAGERS);
}

const MOST_MANAGERS = 3;

function nameOf(entry: Managed | null): string {
  const { manager, subresource } = entry ?? {};
  const name = typeof manager === 'string' && manager !== '' ? manager : 'a manager without a name';
  return typeof subresource === 'string' && subresource !== '' ? `${name} (${subresource})` : name;
}
