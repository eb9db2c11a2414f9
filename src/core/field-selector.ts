import { SelectorError } from './label-requirement.ts';

/** One condition of a field selector: apimachinery's `fields.Requirement`. */
export interface FieldRequirement {
  readonly field: string;
  readonly operator: '=' | '!=';
  readonly value: string;
}

/**
 * Reads `metadata.name=a,status.phase!=Running`, as apimachinery's `fields.ParseSelector` does. In a value, `\` escapes
 * `,`, `=` and itself. @throws SelectorError with the apiserver's message
 */
export function parseFieldSelector(text: string): FieldRequirement[] {
  return termsOf(text).flatMap((term): FieldRequirement[] => {
    // The first operator counts, even after a `\`: the rest belongs to the value.
    const found = /^(.*?)(!=|==?)(.*)$/s.exec(term);
    if (!found) throw new SelectorError(`invalid selector: '${text}'; can't understand '${term}'`);
    const [, field = '', operator, value = ''] = found;
    // An operator alone selects everything.
    return field + value ? [{ field, operator: operator === '!=' ? operator : '=', value: unescaped(value) }] : [];
  });
}

/** The text of a field selector: `parseFieldSelector` gives the same conditions again. */
export function formatFieldSelector(requirements: readonly FieldRequirement[]): string {
  return requirements
    .map(({ field, operator, value }) => `${field}${operator}${value.replace(/[\\,=]/g, '\\$&')}`)
    .join(',');
}

function termsOf(text: string): string[] {
  const terms: string[] = [];
  let term = '';
  let escaped = false;
  for (const character of text) {
    if (character === ',' && !escaped) {
      terms.push(term);
      term = '';
    } else term += character;
    escaped = character === '\\' && !escaped;
  }
  terms.push(term);
  return terms.filter((each) => each !== '');
}

function unescaped(value: string): string {
  let text = '';
  for (let at = 0; at < value.length; at += 1) {
    const character = value[at] ?? '';
    // A comma ends the term. The apiserver writes "=" as its number.
    if (character === '=') throw new SelectorError('invalid field selector: unescaped character in value: 61');
    if (character !== '\\') text += character;
    else {
      at += 1;
      const next = value[at];
      if (next === undefined || !'\\,='.includes(next)) {
        throw new SelectorError(`invalid field selector: invalid escape sequence: \\${next ?? ''}`);
      }
      text += next;
    }
  }
  return text;
}
