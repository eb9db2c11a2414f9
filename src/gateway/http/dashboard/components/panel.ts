import { type Content, html, type Html } from '../html.ts';

export type Tone = 'ok' | 'warn' | 'bad' | 'neutral';

/** A part of a page with a heading. @param end shown at the other side of the heading, such as buttons. */
export function panel(title: Content, body: Content, end?: Content): Html {
  return html`<section class="panel">
    <header>
      <h2>${title}</h2>
      ${end && html`<div class="end">${end}</div>`}
    </header>
    ${body}
  </section>`;
}

/** A state in one word: the colour repeats the word. */
export function badge(tone: Tone, text: string): Html {
  return html`<span class="state ${tone}">${text}</span>`;
}

/** A hint for a place with nothing to show. */
export function empty(text: Content): Html {
  return html`<p class="empty">${text}</p>`;
}

/** Names with their values. Empty values are left out. */
export function facts(entries: readonly (readonly [name: string, value: Content])[]): Html {
  const shown = entries.filter(([, value]) => value !== undefined && value !== false && value !== '');
  return html`<dl class="facts">
    ${shown.map(
      ([name, value]) =>
        html`<dt>${name}</dt>
          <dd>${value}</dd>`,
    )}
  </dl>`;
}
