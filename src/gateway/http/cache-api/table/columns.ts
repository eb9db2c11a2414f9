import { fieldAt, type KubernetesObject } from '../../../../core/index.ts';

export interface ColumnDefinition {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  /** Above 0: shown by `-o wide` alone. */
  readonly priority: number;
}

export type Cell = string | number | bigint | boolean | null;

/** A column of a kind, and how a cell is made of an object. */
export interface Column {
  readonly definition: ColumnDefinition;
  readonly cell: (object: KubernetesObject, nowMs: number) => Cell;
}

export function column(
  name: string,
  cell: Column['cell'],
  { type = 'string', format = '', wide = false }: { type?: string; format?: string; wide?: boolean } = {},
): Column {
  return { definition: { name, type, format, description: `${name} of the object.`, priority: wide ? 1 : 0 }, cell };
}

export function textAt(object: unknown, path: string, absent = ''): string {
  const value = fieldAt(object, path);
  return typeof value === 'string' && value !== '' ? value : absent;
}

export function numberAt(object: unknown, path: string): number {
  const value = fieldAt(object, path);
  return typeof value === 'number' ? value : 0;
}

export function listAt(object: unknown, path: string): Record<string, unknown>[] {
  const value = fieldAt(object, path);
  return Array.isArray(value) ? (value as Record<string, unknown>[]) : [];
}

/** `NAME:STATUS` of a condition. */
export function conditionIs(object: unknown, type: string): string | undefined {
  const found = listAt(object, 'status.conditions').find((each) => each['type'] === type);
  return typeof found?.['status'] === 'string' ? found['status'] : undefined;
}
