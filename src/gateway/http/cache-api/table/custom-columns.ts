import type { CustomColumn } from '../catalog.ts';
import { type Cell, type Column } from './columns.ts';
import { nameColumn } from './built-in-columns.ts';
import { goText } from './go-text.ts';
import { ageOf } from './human-duration.ts';
import { JsonPath } from './json-path.ts';

/**
 * The columns of a custom resource: its name and the columns of its definition (apiextensions-apiserver,
 * tableconvertor.go).
 */
export function customColumns(columns: readonly CustomColumn[]): readonly Column[] {
  return [
    nameColumn,
    ...columns.map(({ name, type, format = '', description = '', priority = 0, jsonPath }) => {
      const path = JsonPath.parse(jsonPath);
      return {
        definition: {
          name,
          type,
          format,
          description: description || `Custom resource definition column (in JSONPath format): ${jsonPath}`,
          priority,
        },
        cell: (object: unknown, nowMs: number) => {
          const results = path?.find(object) ?? [];
          // As the apiserver: the first of them.
          return results.length === 0 ? null : cellOf(type, results[0], nowMs);
        },
      };
    }),
  ];
}

function cellOf(type: string, value: unknown, nowMs: number): Cell {
  if (type === 'string') return goText(value);
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'date':
      return typeof value === 'string' ? ageOf(value, nowMs) : null;
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : typeof value === 'bigint' ? value : null;
    case 'number':
      // A float for the apiserver, too.
      return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    default:
      return null;
  }
}
