import { formatKind } from '../../../../core/index.ts';
import type { Pace } from '../../../../contract/node/view-reader.ts';
import type { Catalog, CustomColumn, ServedKind } from '../catalog.ts';
import { ageColumn, BUILT_IN_COLUMNS, nameColumn } from './built-in-columns.ts';
import type { Column } from './columns.ts';
import { customColumns } from './custom-columns.ts';

/** The columns in which kubectl shows a kind. */
export async function columnsOf(kind: ServedKind, catalog: Catalog, pace: Pace): Promise<readonly Column[]> {
  const builtIn = BUILT_IN_COLUMNS[formatKind(kind.resource)];
  if (builtIn) return builtIn;
  const custom = await catalog.columns(kind);
  if (!custom) return [nameColumn, ageColumn];
  let columns = REMEMBERED.get(custom);
  if (!columns) {
    columns = customColumns(custom, pace);
    REMEMBERED.set(custom, columns);
    columns.catch(() => REMEMBERED.delete(custom));
  }
  return columns;
}

/** By definition, as long as the catalog has it: paths are parsed once, not for each request. */
const REMEMBERED = new WeakMap<readonly CustomColumn[], Promise<readonly Column[]>>();
