import { html } from 'hono/html';

export { html };

/** Escaped markup. The `html` tag escapes every value that is none, so texts from outside stay texts. */
export type Html = ReturnType<typeof html>;

/** What a template may contain: `false` and undefined show nothing. */
export type Content = Html | string | number | false | undefined | readonly Content[];

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
