/** A Markdown table; the first column is text, the others are figures. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((cell, at) => Math.max(3, cell.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, at) => pad(cells[at] ?? '', width, at > 0)).join(' | ')} |`;
  const rule = `| ${widths.map((width, at) => (at > 0 ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width))).join(' | ')} |`;
  return [line(header), rule, ...rows.map(line)].join('\n');
}

/** About three significant digits, and no more decimals than two; empty for no figure. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '';
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || (size >= 10 && Number.isInteger(value)) ? 0 : size >= 10 ? 1 : 2);
}

/** `0.61`; empty unless both values are above zero. */
export function ratio(value: number, to: number): string {
  return value > 0 && to > 0 ? (value / to).toFixed(2) : '';
}

function pad(cell: string, width: number, right: boolean): string {
  return right ? cell.padStart(width) : cell.padEnd(width);
}
