import { parseAllDocuments, stringify } from 'yaml';

/** kubectl reads YAML 1.1, in which `0644` is 420 and `on` is true, and integers of 64 bits. */
const SCHEMA = 'yaml-1.1';

/** The documents of a file, as kubectl reads them. Written again, they keep the digits of their integers. */
export function parseKubectlYaml(text: string): ReturnType<typeof parseAllDocuments> {
  return parseAllDocuments(text, { schema: SCHEMA, intAsBigInt: true });
}

/** A document's value: integers beyond 2^53 are bigints, as `parseJson` has them. */
export function valueOf(document: { toJS(options: { reviver: Reviver }): unknown }): unknown {
  return document.toJS({ reviver: (_, value) => (typeof value === 'bigint' ? exact(value) : value) });
}

type Reviver = (key: unknown, value: unknown) => unknown;

const exact = (value: bigint): number | bigint => (Number.isSafeInteger(Number(value)) ? Number(value) : value);

/** Writes a value so that kubectl, and any reader of YAML 1.2, reads the same value. */
export function formatKubectlYaml(value: unknown): string {
  return stringify(value, { compat: SCHEMA });
}
