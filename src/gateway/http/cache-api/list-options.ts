import { type GroupVersionKind, isResourceVersion, SelectorError } from '../../../core/index.ts';
import { decodeSelection } from '../../../contract/cache-query.ts';
import type { Selection } from '../../../contract/index.ts';
import { checkFields } from '../../../contract/selectable-fields.ts';
import { type ContinueToken, decodeContinue } from './continue-token.ts';
import { badRequest, expired, invalidListOptions } from './kubernetes-status.ts';

/** The decoded and validated options of a list. */
export interface ListRequest {
  readonly selection: Selection;
  /** Objects in one answer; undefined: all. */
  readonly limit: number | undefined;
  readonly continue: ContinueToken | undefined;
  /** The cache must be at least as new as this; undefined: as it is. */
  readonly notOlderThan: string | undefined;
}

/**
 * Reads the query of a list as the apiserver does (apimachinery, ValidateListOptions), but for two things: without a
 * resourceVersion the cache answers as it is, and an exact one is always expired, since there is no history here.
 * @param customFields fields of a custom resource that its definition makes selectable.
 * @throws StatusError
 */
export function listRequest(
  kind: GroupVersionKind,
  query: URLSearchParams,
  namespace: string | undefined,
  customFields: readonly string[] = [],
): ListRequest {
  const limit = readInteger(query.get('limit'));
  readInteger(query.get('timeoutSeconds'));
  const selection = readSelection(kind, query, namespace, customFields);
  const version = query.get('resourceVersion') ?? '';
  const match = query.get('resourceVersionMatch') ?? '';
  const from = query.get('continue') ?? '';
  checkMatch(query, match, version, from);
  if (from !== '') {
    const token = decodeContinue(from);
    if (version !== '' && version !== '0') {
      throw badRequest('specifying resource version is not allowed when using continue');
    }
    return { selection, limit, continue: token, notOlderThan: undefined };
  }
  const notOlderThan = readVersion(version);
  if (match === 'Exact') throw expired('The resourceVersion for the provided list is too old.');
  return { selection, limit, continue: undefined, notOlderThan };
}

/** @throws StatusError 400 */
export function readVersion(version: string): string | undefined {
  if (version === '' || version === '0') return undefined;
  if (isResourceVersion(version) && version.length <= 20) return version;
  throw badRequest(
    `invalid resource version: resourceVersion: Invalid value: ${JSON.stringify(version)}: strconv.ParseUint: parsing ${JSON.stringify(version)}: invalid syntax`,
  );
}

function readSelection(
  kind: GroupVersionKind,
  query: URLSearchParams,
  namespace: string | undefined,
  customFields: readonly string[],
): Selection {
  try {
    const selection = decodeSelection(query, namespace);
    checkFields(kind, selection.fields ?? [], customFields);
    return selection;
  } catch (error) {
    if (error instanceof SelectorError) throw badRequest(error.message);
    throw error;
  }
}

/** As `strconv.ParseInt` of 64 bits. A value beyond an exact number is larger than any limit of ours. */
function readInteger(text: string | null): number | undefined {
  if (text === null || text === '') return undefined;
  const wrong = (why: string): Error => badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: ${why}`);
  if (!/^[+-]?[0-9]+$/.test(text)) throw wrong('invalid syntax');
  const value = BigInt(text);
  if (BigInt.asIntN(64, value) !== value) throw wrong('value out of range');
  // As the apiserver: zero and less mean none.
  return value > 0n ? Number(value) : undefined;
}

function checkMatch(query: URLSearchParams, match: string, version: string, from: string): void {
  const field = 'resourceVersionMatch';
  const causes: { reason: string; message: string; field: string }[] = [];
  const forbid = (message: string, of = field): void => {
    causes.push({ reason: 'FieldValueForbidden', message: `Forbidden: ${message}`, field: of });
  };
  if (match !== '') {
    if (version === '') forbid('resourceVersionMatch is forbidden unless resourceVersion is provided');
    if (from !== '') forbid('resourceVersionMatch is forbidden when continue is provided');
    if (match !== 'Exact' && match !== 'NotOlderThan') {
      const message = `Unsupported value: ${JSON.stringify(match)}: supported values: "Exact", "NotOlderThan", ""`;
      causes.push({ reason: 'FieldValueNotSupported', message, field });
    }
    if (match === 'Exact' && version === '0') {
      forbid('resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
    }
  }
  if ((query.get('sendInitialEvents') ?? '') !== '') {
    forbid('sendInitialEvents is forbidden for list', 'sendInitialEvents');
  }
  if (causes.length > 0) throw invalidListOptions(causes);
}
