import type { Pace } from '../../../../contract/node/view-reader.ts';
import type { CustomColumn } from '../catalog.ts';
import type { Cell, Column } from './columns.ts';
import { nameColumn } from './built-in-columns.ts';
import { cutText, goText } from './go-text.ts';
import { ageOf } from './human-duration.ts';
import { JsonPath } from './json-path.ts';
import { Steps, TooManyStepsError } from './steps.ts';

/** Of a definition. Each costs a cell of each object. */
export const MOST_COLUMNS = 64;
/** The apiserver does not bound a path, and a long one takes long to parse. */
export const MOST_PATH_CHARACTERS = 1024;

/**
 * The columns of a custom resource: its name and the columns of its definition, up to the first with a path that
 * client-go cannot parse (apiextensions-apiserver, tableconvertor.go). Its author bounds neither the number nor the
 * paths of the columns, and the gateway serves other tenants in the same thread, so columns beyond the bounds are left
 * out.
 * @param pace runs the parsing of a path, which takes up to 0.5 ms.
 */
export async function customColumns(columns: readonly CustomColumn[], pace: Pace): Promise<readonly Column[]> {
  const shown: Column[] = [nameColumn];
  for (const column of columns) {
    if (column.jsonPath.length > MOST_PATH_CHARACTERS) continue;
    const made = shown.length > MOST_COLUMNS ? undefined : await pace(() => customColumn(column));
    if (!made) break;
    shown.push(made);
  }
  return shown;
}

/** @returns undefined for a path that client-go cannot parse. */
export function customColumn(column: CustomColumn): Column | undefined {
  const { name, type, format = '', description = '', priority = 0, jsonPath } = column;
  const path = JsonPath.parse(jsonPath);
  if (!path) return undefined;
  return {
    definition: {
      name: cutText(name),
      type,
      format,
      description: cutText(description || `Custom resource definition column (in JSONPath format): ${jsonPath}`),
      priority,
    },
    cell: (object, nowMs) => {
      const steps = new Steps();
      try {
        const results = path.find(object, steps);
        // As the apiserver: the first of them.
        return results.length === 0 ? null : cellOf(type, results[0], nowMs, steps);
      } catch (error) {
        if (error instanceof TooManyStepsError) return null;
        throw error;
      }
    },
  };
}

function cellOf(type: string, value: unknown, nowMs: number, steps: Steps): Cell {
  if (type === 'string') return goText(value, steps);
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
