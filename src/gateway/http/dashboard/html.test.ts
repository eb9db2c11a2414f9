import { expect, it } from 'vitest';
import { html, sentBack } from './html.ts';

it('markup shows what a browser would obey in texts from outside, and sends values back as they are', () => {
  const name = 'a\u202eb<i>';
  expect(String(html`<p>${name}${['\u2066', html`<b>${'\u2067'}</b>`]}</p>`)).toBe(
    String.raw`<p>a\u202eb&lt;i&gt;\u2066<b>\u2067</b></p>`,
  );
  expect(String(html`<input value="${sentBack(name)}" />`)).toBe('<input value="a\u202eb&lt;i&gt;" />');
  expect(String(html`${1}${false}${undefined}${'two\nlines'}`)).toBe('1two\nlines');
});
