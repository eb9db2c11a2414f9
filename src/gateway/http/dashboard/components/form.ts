import { type Content, html, type Html, sentBack } from '../html.ts';
import type { PageRequest } from '../page.ts';

/** The fields of each form that changes something. */
export function hiddenFields({ path, visitor }: PageRequest, fields: Readonly<Record<string, string>> = {}): Html {
  const all = { ...(visitor.csrfToken === undefined ? {} : { csrf: visitor.csrfToken }), to: path, ...fields };
  return html`${Object.entries(all).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${sentBack(value)}" />`,
  )}`;
}

export interface ActionForm {
  readonly action: string;
  readonly label: string;
  readonly fields?: Readonly<Record<string, string>>;
  readonly tone?: 'main' | 'bad';
  /** Asked before the button can be used. Default: nothing. */
  readonly question?: Content;
}

/** A button that changes something; nothing when the visitor may not. */
export function actionForm(
  page: PageRequest,
  { action, label, fields = {}, tone, question }: ActionForm,
): Html | undefined {
  if (!page.mayChange) return undefined;
  const form = html`<form method="post" action="${action}">
    ${hiddenFields(page, fields)}<button class="${tone ?? ''}">${label}</button>
  </form>`;
  if (question === undefined) return form;
  return html`<details class="confirm">
    <summary>${label}…</summary>
    <div>
      <p>${question}</p>
      ${form}
    </div>
  </details>`;
}
