/** A value in JSON, which Python takes as well: on one line, with the spaces of a formatter. */
export function json(value: unknown): string {
  return JSON.stringify(value, null, 1)
    .replaceAll(/([{[])\n */g, '$1')
    .replaceAll(/\n *([}\]])/g, '$1')
    .replaceAll(/\n */g, ' ');
}

/** The same as a literal of JavaScript, as prettier writes it. YAML takes it as well. */
export function literal(value: unknown): string {
  return json(value)
    .replaceAll(/"(\w+)":/g, '$1:')
    .replaceAll('"', "'")
    .replaceAll('{', '{ ')
    .replaceAll('}', ' }');
}
