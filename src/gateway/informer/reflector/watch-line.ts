import {
  ApiError,
  type ApiStatus,
  isExpired,
  isResourceVersion,
  type KubernetesObject,
  parseJson,
  type ResourceVersion,
} from '../../../core/index.ts';

/** How one watch ended, which decides the next step. */
export type WatchEnd =
  /**
   * The server closed it in order, or we did, to drain the buffer or to get a bookmark: go on from the last version.
   */
  | { readonly kind: 'closed' }
  /** The version is no longer served: list again. */
  | { readonly kind: 'expired' }
  /** The server is overloaded: go on from the last version, after the time that it named. */
  | { readonly kind: 'throttled'; readonly retryAfterMs: number | undefined }
  /** Anything else: back off, check whether the server's data was rewound, go on from the last version. */
  | { readonly kind: 'failed'; readonly error: unknown };

/** One line of a watch, decoded. */
export type WatchLine =
  | {
      readonly kind: 'changed' | 'deleted';
      readonly object: KubernetesObject;
      /** The object's own text, when the line is written as the apiserver writes it. */
      readonly json: string | undefined;
      readonly version: ResourceVersion;
    }
  /** `endsList`: everything that existed when a streaming list began has been sent. */
  | { readonly kind: 'bookmark'; readonly version: ResourceVersion; readonly endsList: boolean }
  | { readonly kind: 'end'; readonly end: WatchEnd };

const INITIAL_EVENTS_END = 'k8s.io/initial-events-end';

/**
 * Decodes a line. A line that cannot be understood ends the watch and is never skipped: the version stays where it was,
 * and the next watch delivers the line again.
 */
export function decodeWatchLine(line: Buffer): WatchLine {
  const text = line.toString('utf8');
  let event: { type?: string; object?: KubernetesObject & ApiStatus };
  try {
    event = parseJson(text) as typeof event;
  } catch {
    return failed('a line of the watch is not JSON');
  }
  const { type, object } = event;
  if (type === 'ERROR') return { kind: 'end', end: endOf(new ApiError(object ?? {})) };
  const version = object?.metadata?.resourceVersion;
  if (!object || !isResourceVersion(version)) return failed('an event of the watch carries no resourceVersion');
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
      return { kind: 'changed', object, json: objectText(text, type, event), version };
    case 'DELETED':
      return { kind: 'deleted', object, json: objectText(text, type, event), version };
    case 'BOOKMARK': {
      const endsList = object.metadata.annotations?.[INITIAL_EVENTS_END] === 'true';
      return { kind: 'bookmark', version, endsList };
    }
    default:
      return failed(`an event of the watch has the unknown type ${String(type)}`);
  }
}

/** The text of the object in the line, if the frame of the event is written without blanks and has no other members. */
function objectText(line: string, type: string, event: object): string | undefined {
  const frame = `{"type":"${type}","object":`;
  if (!line.startsWith(frame) || !line.endsWith('}}') || Object.keys(event).length !== 2) return undefined;
  return line.slice(frame.length, -1);
}

/** The meaning of an error for a watch, whether it came as a status or as an ERROR event. */
export function endOf(error: unknown): WatchEnd {
  if (isExpired(error)) return { kind: 'expired' };
  if (error instanceof ApiError && error.code === 429) return { kind: 'throttled', retryAfterMs: error.retryAfterMs };
  return { kind: 'failed', error };
}

function failed(message: string): WatchLine {
  return { kind: 'end', end: { kind: 'failed', error: new Error(message) } };
}
