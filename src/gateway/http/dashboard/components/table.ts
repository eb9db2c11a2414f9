import { type Content, formatCount, html, type Html } from '../html.ts';

type Extra = 'optional' | 'medium' | 'wide';
type ColumnLook = 'number' | `number ${Extra}` | Extra | 'text' | 'text optional' | 'check' | 'nowrap';

export interface TableColumn<T> {
  readonly title: Content;
  readonly cell: (row: T) => Content;
  /** `optional` columns are left out on a narrow screen, `medium` and `wide` ones also on a wider one. */
  readonly look?: ColumnLook;
  /** Names the row. */
  readonly heading?: boolean;
}

/** @param label says to a screen reader what the table has. @param id of a row: keeps it the same when it moves. */
export function table<T>(
  label: string,
  rows: readonly T[],
  columns: readonly TableColumn<T>[],
  id?: (row: T) => string,
): Html {
  const head = columns.map(({ title, look }) => html`<th scope="col" class="${look ?? ''}">${title}</th>`);
  const body = rows.map((row) => {
    const cells = columns.map(({ cell, look, heading }) =>
      heading
        ? html`<th scope="row" class="${look ?? ''}">${cell(row)}</th>`
        : html`<td class="${look ?? ''}">${cell(row)}</td>`,
    );
    const name = id && html` id="${id(row)}"`;
    return html`<tr${name}>${cells}</tr>`;
  });
  return html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
    <table>
      <thead>
        <tr>
          ${head}
        </tr>
      </thead>
      <tbody>
        ${body}
      </tbody>
    </table>
  </div>`;
}

/** A count that does not shout when it is none. */
export function count(value: number): Html {
  return html`<span class="${value === 0 && 'zero'}">${formatCount(value)}</span>`;
}
