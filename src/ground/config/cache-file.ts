import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { isFormattedKind, messageOf, UserError } from '../../core/index.ts';
import { fieldPath, namespace } from '../../contract/name-schema.ts';
import { variableOf } from './config.ts';

/**
 * The cached part of a resource: controller-runtime's `cache.ByObject` (pkg/cache/cache.go), as the operator's setting.
 */
export interface ViewSettings {
  /** These namespaces, each with a view and a watch of its own; all when absent. Ignored for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /** Only objects that match, in the apiserver's syntax: `app=web,tier!=test`. */
  readonly labelSelector?: string;
  /** Only objects that match, as far as the resource supports it: `spec.nodeName!=`. */
  readonly fieldSelector?: string;
  /** Ask the apiserver for metadata alone. Readers get objects without spec and status. Default false. */
  readonly metadataOnly?: boolean;
  /**
   * Paths of fields to leave out, with dots: an object is smaller in Redis without them. Default
   * `metadata.managedFields`.
   */
  readonly drop?: readonly string[];
}

/**
 * The settings of one gateway: for all kinds, and for some, by `apiVersion/Kind`, where each field replaces the
 * default's.
 */
export interface CacheSettings {
  readonly defaults: ViewSettings;
  readonly kinds: Readonly<Record<string, ViewSettings>>;
}

const settings = z.strictObject({
  namespaces: z.array(namespace).min(1).exactOptional(),
  labelSelector: z.string().exactOptional(),
  fieldSelector: z.string().exactOptional(),
  metadataOnly: z.boolean().exactOptional(),
  drop: z
    .array(fieldPath)
    .refine((paths) => !paths.some((path) => KEPT.has(path)), 'must leave the fields that identify an object')
    .exactOptional(),
});

/** Without these nothing works. */
const KEPT = new Set([
  'apiVersion',
  'kind',
  'metadata',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'metadata.resourceVersion',
  'metadata.ownerReferences',
  'metadata.deletionTimestamp',
]);

const schema = z.strictObject({
  defaults: settings.default({}),
  kinds: z
    .record(z.string().refine(isFormattedKind, 'must be apiVersion/Kind, such as apps/v1/ReplicaSet'), settings)
    .default({}),
});

/**
 * Reads what of each kind is cached:
 *
 * ```yaml
 * defaults: { namespaces: [web, shop] }
 * kinds:
 *   v1/Pod: { fieldSelector: spec.nodeName!=, drop: [metadata.managedFields, status.containerStatuses] }
 *   v1/Secret: { metadataOnly: true }
 * ```
 *
 * @throws UserError naming the file and the first wrong field.
 */
export async function readCacheSettings(path: string | undefined): Promise<CacheSettings> {
  if (path === undefined) return { defaults: {}, kinds: {} };
  let value: unknown;
  try {
    const { parse } = await import('yaml');
    value = parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw new UserError(`${variableOf('cacheFile')} ${path} cannot be read (${messageOf(error).split('\n', 1)[0]}).`);
  }
  const parsed = schema.safeParse(value ?? {});
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  // An issue with a key has its reason one level below.
  const message = issue?.code === 'invalid_key' ? issue.issues[0]?.message : issue?.message;
  throw new UserError(`${path} is wrong at ${issue?.path.join('.') || 'its top level'}: ${message}.`);
}
