import { formatJson } from '../../../core/index.ts';
import type { CustomColumn } from '../catalog.ts';
import { type Cell, type Column } from './columns.ts';
import { nameColumn } from './built-in-columns.ts';
import { ageOf } from './human-duration.ts';

/**
 * The columns of a custom resource: its name and those of its definition (apiextensions-apiserver, tableconvertor.go).
 */
export function customColumns(columns: readonly CustomColumn[]): readonly Column[] {
  return [
    nameColumn,
    ...columns.map(({ name, type, format = '', description = '', priority = 0, jsonPath }) => {
      const steps = parsePath(jsonPath);
      return {
        definition: {
          name,
          type,
          format,
          description: description || `Custom resource definition column (in JSONPath format): ${jsonPath}`,
          priority,
        },
        cell: (object: unknown, nowMs: number) => cellOf(type, steps && evaluate(object, steps), nowMs),
      };
    }),
  ];
}

/** A step of a path: a field, an element, all elements, or those whose field equals a text. */
type Step =
  | { readonly field: string }
  | { readonly element: number }
  | { readonly where?: { readonly field: string; readonly value: string } };

const STEP =
  /\.([A-Za-z0-9_$-]+)|\[\s*'((?:[^'\\]|\\.)*)'\s*\]|\[(-?[0-9]+)\]|\[(\*)\]|\[\?\(\s*@\.([A-Za-z0-9_$-]+)\s*==\s*(?:"([^"]*)"|'([^']*)')\s*\)\]/y;

/**
 * The part of Kubernetes' JSONPath that columns use: fields, elements, `[*]` and filters by equality. Undefined for any
 * other, whose cells are empty.
 */
function parsePath(path: string): Step[] | undefined {
  const steps: Step[] = [];
  // `.metadata.annotations.a\.b` names a field with a dot in it.
  const text = path.replaceAll('\\.', '\u0000');
  let last = 0;
  STEP.lastIndex = 0;
  for (let found = STEP.exec(text); found; found = STEP.exec(text)) {
    last = STEP.lastIndex;
    const [, field, quoted, element, all, by, double, single] = found;
    if (field !== undefined || quoted !== undefined)
      steps.push({ field: (field ?? quoted ?? '').replaceAll('\u0000', '.') });
    else if (element !== undefined) steps.push({ element: Number(element) });
    else if (all !== undefined) steps.push({});
    else if (by !== undefined) steps.push({ where: { field: by, value: double ?? single ?? '' } });
  }
  return last === text.length ? steps : undefined;
}

function evaluate(object: unknown, steps: readonly Step[]): unknown {
  let values = [object];
  for (const step of steps) {
    values = values.flatMap((value) => {
      if ('field' in step) {
        if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step.field)) return [];
        return [(value as Record<string, unknown>)[step.field]];
      }
      if (!Array.isArray(value)) return [];
      if ('element' in step) return value.at(step.element) === undefined ? [] : [value.at(step.element) as unknown];
      const { where } = step;
      return where
        ? value.filter((each: Record<string, unknown> | null) => each?.[where.field] === where.value)
        : value;
    });
  }
  // As the apiserver: the first of them.
  return values[0];
}

function cellOf(type: string, value: unknown, nowMs: number): Cell {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'date':
      return typeof value === 'string' ? ageOf(value, nowMs) : '<unknown>';
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : typeof value === 'bigint' ? value : null;
    case 'number':
      // A float for the apiserver, too.
      return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    default:
      return typeof value === 'string' ? value : formatJson(value);
  }
}
