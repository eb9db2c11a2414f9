import { html as tagged } from 'hono/html';
import { printable } from '../../../core/index.ts';
import type { HtmlEscapedString } from 'hono/utils/html';

/** Escaped markup. */
export type Html = HtmlEscapedString;

/** The values that a template may contain: `false` and undefined show nothing. */
export type Content = Html | string | number | false | undefined | readonly Content[];

/**
 * Makes markup. Every value that is not markup is escaped, so texts from outside stay texts, and control characters
 * that the browser would obey (marks of direction) are shown.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  // A promise only where a value is one.
  return tagged(strings, ...values.map(printableContent)) as Html;
}

/** The value of a field that the browser sends back: escaped, and as it is. */
export function sentBack(value: string): Html {
  return tagged`${value}` as Html;
}

function printableContent(value: Content): Content {
  if (typeof value === 'string') return printable(value);
  // Markup is a String object, and no list.
  return Array.isArray(value) ? value.map(printableContent) : value;
}

/** `1 key`, `2 keys`, `12,345 keys`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** `12,345`: the same in every locale, so that pages can be compared. */
export function formatCount(count: number): string {
  return Math.round(count)
    .toString()
    .replaceAll(/\B(?=(\d{3})+$)/g, ',');
}
