import { formatJson, formatKind, type KubernetesObject, type Resource } from '../../../core/index.ts';
import type { Found, Pace } from '../../../contract/node/view-reader.ts';
import type { Form } from './accept.ts';
import type { HeldAnswer } from './answer-room.ts';
import type { Catalog, ServedKind } from './catalog.ts';
import { badRequest } from './kubernetes-status.ts';
import type { Cell, Column } from './table/columns.ts';
import { columnsOf } from './table/columns-of.ts';

export interface ListMetadata {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** How an answer is written, piece by piece, so that a long list need never be in memory as a whole. */
export interface AnswerForm {
  head(metadata: ListMetadata): string;
  /** Takes the reader's time a part of the work at a time. @throws StatusError 429 */
  item(found: Found): Piece | Promise<Piece>;
  tail: string;
  /** The answer to a read of one object. @throws StatusError 429 */
  one(found: Found): Promise<readonly Piece[]>;
  /** Objects are passed on as they are, and not looked at. */
  verbatim: boolean;
}

/** A part of an answer: text, or bytes that came from Redis and need not become text on their way. */
export type Piece = string | Uint8Array;

/** The parts of an answer in one piece. */
export function joined(pieces: readonly Piece[]): Uint8Array<ArrayBuffer> {
  return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)));
}

/** Items with commas between them. */
export async function itemsOf(form: AnswerForm, batch: readonly Found[]): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for (const each of batch) {
    if (pieces.length > 0) pieces.push(COMMA);
    pieces.push(await form.item(each));
  }
  return pieces;
}

const COMMA = Buffer.from(',');

export interface FormOptions {
  readonly catalog: Catalog;
  readonly includeObject: string;
  readonly nowMs: number;
  /** The thread's time for the answer. */
  readonly pace: Pace;
  /** The memory of the answer. */
  readonly held: Pick<HeldAnswer, 'take'>;
}

/** @throws StatusError 400 for an `includeObject` that there is not. */
export async function answerForm(form: Form, kind: ServedKind, options: FormOptions): Promise<AnswerForm> {
  const { apiVersion, kind: name } = kind.resource;
  switch (form) {
    case 'object':
      return { ...listForm({ kind: `${name}List`, apiVersion }, ({ json }) => json), verbatim: true };
    case 'metadata':
      return listForm({ kind: 'PartialObjectMetadataList', apiVersion: META }, ({ decode }) =>
        options.pace(() => formatJson(partial(kind.resource, decode()))),
      );
    case 'table':
      return tableForm(kind, await columnsOf(kind, options.catalog, options.pace), options);
  }
}

const META = 'meta.k8s.io/v1';

/**
 * The annotations that the apiserver makes of fields, and that whole objects alone have (`conversion.go` of
 * pkg/apis/apps/v1 and pkg/apis/autoscaling/v1).
 */
const OF_WHOLE_OBJECTS: ReadonlyMap<string, readonly string[]> = new Map([
  ['apps/v1/DaemonSet', ['deprecated.daemonset.template.generation']],
  [
    'autoscaling/v1/HorizontalPodAutoscaler',
    ['metrics', 'current-metrics', 'conditions', 'behavior'].map((each) => `autoscaling.alpha.kubernetes.io/${each}`),
  ],
]);

function partial(of: Resource, { metadata }: KubernetesObject) {
  const type = { kind: 'PartialObjectMetadata', apiVersion: META };
  const left = OF_WHOLE_OBJECTS.get(formatKind(of));
  const { annotations, ...rest } = metadata;
  if (!left?.some((each) => annotations?.[each] !== undefined)) return { ...type, metadata };
  const others = Object.entries(annotations ?? {}).filter(([name]) => !left.includes(name));
  return { ...type, metadata: others.length > 0 ? { ...rest, annotations: Object.fromEntries(others) } : rest };
}

function listForm(type: { kind: string; apiVersion: string }, item: AnswerForm['item']): AnswerForm {
  return {
    head: (metadata) => `${JSON.stringify({ ...type, metadata }).slice(0, -1)},"items":[`,
    item,
    tail: ']}\n',
    one: async (found) => [await item(found), '\n'],
    verbatim: false,
  };
}

function tableForm(
  kind: ServedKind,
  columns: readonly Column[],
  { includeObject, nowMs, pace, held }: FormOptions,
): AnswerForm {
  if (!['', 'None', 'Metadata', 'Object'].includes(includeObject)) {
    throw badRequest(
      `includeObject: Invalid value: ${JSON.stringify(includeObject)}: must be 'Metadata', 'Object', 'None', or empty`,
    );
  }
  const row = async ({ decode }: Found): Promise<Piece> => {
    const object = await pace(decode);
    const cells: Cell[] = [];
    // One at a time: a definition may have many columns, and each cell may look at much of the object.
    for (const { cell } of columns) cells.push(await pace(() => cell(object, nowMs)));
    const shown =
      includeObject === 'None' ? null : includeObject === 'Object' ? object : partial(kind.resource, object);
    const written = await pace(() => Buffer.from(formatJson({ cells, ...conditionsOf(kind, object), object: shown })));
    // The cells of an object may have more bytes than the object, which is all that the read has counted.
    held.take(written.length);
    return written;
  };
  const type = { kind: 'Table', apiVersion: META };
  const columnDefinitions = columns.map(({ definition }) => definition);
  const head = (metadata: object): string =>
    `${JSON.stringify({ ...type, metadata, columnDefinitions }).slice(0, -1)},"rows":[`;
  const one = async (found: Found): Promise<Piece[]> => {
    // The row first, which decodes the object in the reader's time.
    const only = await row(found);
    return [head({ resourceVersion: found.decode().metadata.resourceVersion }), only, ']}\n'];
  };
  return { head, item: row, tail: ']}\n', one, verbatim: false };
}

/** A pod that has ended, which clients may hide. */
function conditionsOf(kind: ServedKind, object: KubernetesObject): object {
  const phase = (object as { status?: { phase?: string } }).status?.phase;
  if (formatKind(kind.resource) !== 'v1/Pod' || (phase !== 'Succeeded' && phase !== 'Failed')) return {};
  const message = phase === 'Succeeded' ? 'The pod has completed successfully.' : 'The pod failed.';
  return { conditions: [{ type: 'Completed', status: 'True', reason: phase, message }] };
}
