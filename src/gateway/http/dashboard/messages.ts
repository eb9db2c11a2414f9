import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { boundedText } from '../../../core/index.ts';
import type { Message } from './page.ts';
import { DASHBOARD_PATH } from './urls.ts';

const COOKIE = 'levelhook-message';
const MAX_CHARACTERS = 500;

/** Keeps the result of a change for the page that the visitor sees next. */
export function leaveMessage(context: Context, { kind, text }: Message): void {
  setCookie(context, COOKIE, `${kind} ${boundedText(text, MAX_CHARACTERS)}`, {
    path: DASHBOARD_PATH,
    httpOnly: true,
    sameSite: 'Strict',
    maxAge: 30,
  });
}

/** Takes the result of the visitor's last change, if the page that follows has not shown it yet. */
export function takeMessage(context: Context): Message | undefined {
  const found = getCookie(context, COOKIE);
  if (found === undefined) return undefined;
  deleteCookie(context, COOKIE, { path: DASHBOARD_PATH });
  const [kind, ...words] = found.split(' ');
  const text = boundedText(words.join(' '), MAX_CHARACTERS);
  return { kind: kind === 'done' ? 'done' : 'failed', text };
}
