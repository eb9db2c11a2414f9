import { formatKind } from '../../../../core/index.ts';
import type { Catalog, ServedKind } from '../catalog.ts';
import { ageColumn, BUILT_IN_COLUMNS, nameColumn } from './built-in-columns.ts';
import type { Column } from './columns.ts';
import { customColumns } from './custom-columns.ts';

/** The columns in which kubectl shows a kind. */
export async function columnsOf(kind: ServedKind, catalog: Catalog): Promise<readonly Column[]> {
  const builtIn = BUILT_IN_COLUMNS[formatKind(kind.resource)];
  if (builtIn) return builtIn;
  const custom = await catalog.columns(kind);
  return custom ? customColumns(custom) : [nameColumn, ageColumn];
}
