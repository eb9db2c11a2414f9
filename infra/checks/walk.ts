/**
 * Compares the walk of src/gateway/README.md with the code. Each row names a function, and how the function of the next
 * row gets the change. The functions of a file that a function calls count as parts of it, because the table leaves out
 * private steps.
 */
import type { Source } from './walk-source.ts';

/** A row of the table. */
export interface Row {
  /** Its path in src/gateway. */
  readonly file: string;
  /** `function`, `Class.method` or `Class.#method`. */
  readonly name: string;
  readonly next: string;
}

/** The cell of the last row. */
const END = 'the end';

const NAME = '`([#.\\w]+)`';
const FILE = '`([/\\w-]+[.]ts)`';
const CALLS = new RegExp(`^calls ${NAME}(?: as ${NAME})?(?:, given by ${FILE})?$`);
const LEAVES = new RegExp(`^leaves it in (?:an? )?${NAME} for ${NAME}$`);
const RETURNS = new RegExp(`^(?:returns to|calls back) ${NAME}, which calls ${NAME}$`);

/** How the next function gets the change. */
export type Link =
  /** `as`: the name that the code calls, if it is another. `givenBy`: the file that passes the callee to the caller. */
  | { readonly kind: 'calls'; readonly to: string; readonly as?: string; readonly givenBy?: string }
  | { readonly kind: 'leaves'; readonly to: string; readonly data: string }
  | { readonly kind: 'returns'; readonly to: string; readonly caller: string };

/** The rows of the table of functions in a README. */
export function rowsOf(readme: string): Row[] {
  const rows = readme.matchAll(/^\| `([a-z/-]+[.]ts)` +\| `([#.\w]+)` +\| .* \| (.+?) +\|$/gm);
  return [...rows].map(([, file = '', name = '', next = '']) => ({ file, name, next }));
}

/** Reads the last cell of a row; undefined when it has another form. */
export function linkOf({ next }: Row): Link | undefined {
  const calls = CALLS.exec(next);
  if (calls) {
    const [, to = '', as, givenBy] = calls;
    return { kind: 'calls', to, ...(as !== undefined && { as }), ...(givenBy !== undefined && { givenBy }) };
  }
  const leaves = LEAVES.exec(next);
  if (leaves) return { kind: 'leaves', data: leaves[1] ?? '', to: leaves[2] ?? '' };
  const returns = RETURNS.exec(next);
  return returns ? { kind: 'returns', caller: returns[1] ?? '', to: returns[2] ?? '' } : undefined;
}

/**
 * @param sourceOf reads a file of src/gateway.
 * @returns a sentence for each row that the code does not bear out.
 */
export function problemsOf(rows: readonly Row[], sourceOf: (file: string) => Source): string[] {
  return rows.flatMap((row, at) => {
    if (!sourceOf(row.file).has(row.name)) return [`${row.file} has no function ${row.name}`];
    const problem = problemOf(rows, at, sourceOf);
    return problem === undefined ? [] : [`${row.name}: ${problem}`];
  });
}

function problemOf(rows: readonly Row[], at: number, sourceOf: (file: string) => Source): string | undefined {
  const [row, next] = [rows[at], rows[at + 1]];
  if (!row || (!next && row.next === END)) return undefined;
  const link = linkOf(row);
  if (!link) return `"${row.next}" says nothing that can be checked`;
  if (link.to !== next?.name) return `the next row has ${next?.name ?? 'no function'}, and not ${link.to}`;
  const source = sourceOf(row.file);
  const target = { name: next.name, source: sourceOf(next.file) };
  switch (link.kind) {
    case 'calls': {
      const { to, as, givenBy } = link;
      const giver = givenBy === undefined ? source : sourceOf(givenBy);
      const kinds = as === undefined ? source.callsOf(row.name, target) : [];
      const isCalled = as === undefined ? kinds.length > 0 : source.callsBy(row.name, as);
      if (!isCalled) return `does not call ${as ?? to}`;
      if (kinds.includes('direct')) return givenBy === undefined ? undefined : `calls ${to} itself`;
      const [caller = '', callee = ''] = [row.name, to].map((each) => each.split('.')[0]);
      const isGiven = kinds.includes('interface') ? giver.passes(callee, caller) : giver.names(to);
      return isGiven ? undefined : `${givenBy ?? row.file} does not pass ${to} to ${caller}`;
    }
    case 'leaves': {
      const without = [row, next].find(({ file, name }) => !sourceOf(file).uses(name, link.data));
      return without && `${without.name} does not use ${link.data}`;
    }
    case 'returns': {
      const from = rows.slice(0, at).findLastIndex(({ name }) => name === link.caller);
      const caller = rows[from];
      if (!caller) return `no row before it has ${link.caller}`;
      const between = rows.slice(from, at).find((each) => linkOf(each)?.kind === 'leaves');
      if (between) return `does not return to ${link.caller}: ${between.name} leaves data`;
      const { file, name } = caller;
      return sourceOf(file).callsOf(name, target).includes('direct') ? undefined : `${name} does not call ${link.to}`;
    }
  }
}
