import { stringify } from 'yaml';
import { printable } from '../core/index.ts';

/** The form of an answer: `table` and `text` are for people. */
export type Output = 'table' | 'text' | 'json' | 'yaml';

/** An answer in this form. @param text the form for people. */
export function outputText(output: Output, answer: unknown, text: string): string {
  if (output === 'json') return printable(`${JSON.stringify(answer, undefined, 2)}\n`);
  return printable(output === 'yaml' ? stringify(answer) : text);
}
