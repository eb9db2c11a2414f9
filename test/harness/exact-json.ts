/** JSON with its numbers as they are written: `{"#": "9007199254740993"}`. Past the codec that is tested. */
export function exact(text: string): unknown {
  const reviver = (_: string, value: unknown, { source }: { source?: string }): unknown =>
    typeof value === 'number' ? { '#': source } : value;
  return JSON.parse(text, reviver as (name: string, value: unknown) => unknown);
}
