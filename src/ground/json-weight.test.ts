import { describe, expect, it } from 'vitest';
import { weightOf } from './json-weight.ts';

describe('the weight of JSON', () => {
  const MIB = 1024 * 1024;
  const list = (item: string): string => `[${`${item},`.repeat((1.4 * MIB) / (item.length + 1))}1]`;
  const fields = Array.from({ length: 150_000 }, (_, at) => `"${at.toString(36)}":1`);

  // Measured: the heap that the parsed text takes, and the text itself.
  it.each([
    ['lists in a list', list('[]'), 14.4],
    ['objects in a list', list('{}'), 22.3],
    ['lists of an object in a list', list('[{}]'), 25],
    ['fields of an object', `{${fields.join()}}`, 8.2],
    ['a long text', `{"a":"${'x'.repeat(1.4 * MIB)}"}`, 2],
    ['a long text in another script', `{"a":"${'ж'.repeat(0.7 * MIB)}"}`, 2],
    ['a long text with a wide character', `{"a":"${'x'.repeat(1.4 * MIB)}ж"}`, 4],
  ])('is about what it takes in memory: %s', (_name, text, factor) => {
    const line = Buffer.from(text);
    const ratio = weightOf(line) / (factor * line.length);
    expect(ratio).toBeGreaterThan(1 / 1.5);
    expect(ratio).toBeLessThan(1.5);
  });

  it('is that of an ordinary object when it is short', () => {
    expect(weightOf(Buffer.from('{"a":1}'))).toBe(6 * 7);
  });
});
