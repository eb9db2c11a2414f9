import { formatJson, formatKind, type KubernetesObject } from '../../../core/index.ts';
import type { Found, Pace } from '../../../contract/node/view-reader.ts';
import type { Form } from './accept.ts';
import type { Catalog, ServedKind } from './catalog.ts';
import { badRequest } from './kubernetes-status.ts';
import type { Column } from './table/columns.ts';
import { columnsOf } from './table/columns-of.ts';

export interface ListMetadata {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** How an answer is written, piece by piece, so that a long list need never be in memory as a whole. */
export interface AnswerForm {
  head(metadata: ListMetadata): string;
  item(found: Found): Piece;
  tail: string;
  /** The answer to a read of one object. */
  one(found: Found): readonly Piece[];
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
export async function itemsOf(form: AnswerForm, batch: readonly Found[], pace: Pace): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for (const each of batch) {
    if (pieces.length > 0) pieces.push(COMMA);
    pieces.push(form.verbatim ? form.item(each) : await pace(() => form.item(each)));
  }
  return pieces;
}

const COMMA = Buffer.from(',');

/** @throws StatusError 400 for an `includeObject` that there is not. */
export async function answerForm(
  form: Form,
  kind: ServedKind,
  options: { catalog: Catalog; includeObject: string; nowMs: number },
): Promise<AnswerForm> {
  const { apiVersion, kind: name } = kind.resource;
  switch (form) {
    case 'object':
      return { ...listForm({ kind: `${name}List`, apiVersion }, ({ json }) => json), verbatim: true };
    case 'metadata':
      return listForm({ kind: 'PartialObjectMetadataList', apiVersion: META }, ({ decode }) =>
        formatJson(partial(decode())),
      );
    case 'table':
      return tableForm(kind, await columnsOf(kind, options.catalog), options);
  }
}

const META = 'meta.k8s.io/v1';
const partial = ({ metadata }: KubernetesObject) => ({ kind: 'PartialObjectMetadata', apiVersion: META, metadata });

function listForm(type: { kind: string; apiVersion: string }, item: (found: Found) => Piece): AnswerForm {
  return {
    head: (metadata) => `${JSON.stringify({ ...type, metadata }).slice(0, -1)},"items":[`,
    item,
    tail: ']}\n',
    one: (found) => [item(found), '\n'],
    verbatim: false,
  };
}

function tableForm(
  kind: ServedKind,
  columns: readonly Column[],
  { includeObject, nowMs }: { includeObject: string; nowMs: number },
): AnswerForm {
  if (!['', 'None', 'Metadata', 'Object'].includes(includeObject)) {
    throw badRequest(
      `includeObject: Invalid value: ${JSON.stringify(includeObject)}: must be 'Metadata', 'Object', 'None', or empty`,
    );
  }
  const row = ({ decode }: Found): string => {
    const object = decode();
    const cells = columns.map(({ cell }) => cell(object, nowMs));
    const shown = includeObject === 'None' ? null : includeObject === 'Object' ? object : partial(object);
    return formatJson({ cells, ...conditionsOf(kind, object), object: shown });
  };
  const type = { kind: 'Table', apiVersion: META };
  const columnDefinitions = columns.map(({ definition }) => definition);
  const head = (metadata: object): string =>
    `${JSON.stringify({ ...type, metadata, columnDefinitions }).slice(0, -1)},"rows":[`;
  const one = (found: Found): string[] => [
    head({ resourceVersion: found.decode().metadata.resourceVersion }),
    row(found),
    ']}\n',
  ];
  return { head, item: row, tail: ']}\n', one, verbatim: false };
}

/** A pod that has ended, which clients may hide. */
function conditionsOf(kind: ServedKind, object: KubernetesObject): object {
  const phase = (object as { status?: { phase?: string } }).status?.phase;
  if (formatKind(kind.resource) !== 'v1/Pod' || (phase !== 'Succeeded' && phase !== 'Failed')) return {};
  const message = phase === 'Succeeded' ? 'The pod has completed successfully.' : 'The pod failed.';
  return { conditions: [{ type: 'Completed', status: 'True', reason: phase, message }] };
}
