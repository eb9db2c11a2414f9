import { parseJson } from '../../../core/index.ts';
import { badRequest, tooLarge } from '../cache-api/kubernetes-status.ts';
import type { ProxiedRequest } from './proxied-request.ts';

/** The parts of a request that the apiserver's answer does not repeat. */
export interface RequestOptions {
  /**
   * Whether the request mentions a dry run. Only the server knows whether it was one: it reads the options of a delete
   * from the query if there is no body, and a server behind an APIService may know no dry runs.
   */
  readonly mentionsDryRun: boolean;
  /** The UID that an eviction, or a delete, is only for. */
  readonly uid: string | undefined;
}

/** Clients send fewer than 1 KiB. */
const MAX_OPTIONS_BYTES = 64 * 1024;
const NAMES = ['apiVersion', 'kind', 'metadata', 'deleteOptions', 'dryRun', 'preconditions', 'uid'];
const NAME_BY_FOLDED = new Map(NAMES.map((name) => [folded(name), name]));

interface DeleteOptions {
  readonly dryRun?: unknown;
  readonly preconditions?: { readonly uid?: unknown } | null;
}

/**
 * Reads the options of a delete, and the options in an eviction. The bodies of other writes have none.
 * @throws StatusError 400 for a body that two parsers may read differently, 413
 */
export function requestOptions(
  { resource, verb, isDryRun }: Pick<ProxiedRequest, 'resource' | 'verb' | 'isDryRun'>,
  sent: Buffer,
): RequestOptions {
  const isEviction = resource?.subresource === 'eviction';
  const hasOptions = verb === 'delete' || verb === 'deletecollection' || isEviction;
  if (!hasOptions || sent.length === 0) return { mentionsDryRun: isDryRun, uid: undefined };
  if (sent.length > MAX_OPTIONS_BYTES)
    throw tooLarge(`the options of a delete have at most ${MAX_OPTIONS_BYTES} bytes`);
  const body = unambiguous(sent);
  const options = (isEviction ? (body['deleteOptions'] ?? {}) : body) as DeleteOptions;
  const { dryRun, preconditions } = options;
  const isNone = dryRun === undefined || dryRun === null || (Array.isArray(dryRun) && dryRun.length === 0);
  const uid = preconditions?.uid;
  return { mentionsDryRun: isDryRun || !isNone, uid: typeof uid === 'string' && uid !== '' ? uid : undefined };
}

/** A JSON object that every parser reads alike. */
function unambiguous(body: Buffer): Record<string, unknown> {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    value = parseJson(text);
  } catch {
    throw ambiguous('it is not one JSON text in UTF-8');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw ambiguous('it is not an object');
  let fields = 0;
  // Not by recursion: the body may be as deep as it is long.
  for (const objects: object[] = [value]; ;) {
    const object = objects.pop();
    if (!object) break;
    const names = Array.isArray(object) ? [] : Object.keys(object);
    fields += names.length;
    if (new Set(names.map(folded)).size < names.length) throw ambiguous('two of its fields differ in case alone');
    const wrong = names.find((name) => (NAME_BY_FOLDED.get(folded(name)) ?? name) !== name);
    if (wrong !== undefined) throw ambiguous(`its field ${JSON.stringify(wrong.slice(0, 50))} is in another case`);
    for (const each of Object.values(object))
      if (typeof each === 'object' && each !== null) objects.push(each as object);
  }
  // JSON.parse keeps the last of the fields of one name.
  const written = [...text.matchAll(/"(?:[^"\\]|\\.)*"[ \t\r\n]*(:?)/g)].filter(([, colon]) => colon === ':');
  if (written.length > fields) throw ambiguous('a field of it occurs twice');
  return value as Record<string, unknown>;
}

/** Go's encoding/json compares names so. */
function folded(name: string): string {
  return name.toLowerCase().toUpperCase();
}

const ambiguous = (why: string) =>
  badRequest(`the options of the delete are unclear: ${why}. Send each field once, as the Kubernetes API names it`);
