import { describe, expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import { listRequest } from './list-options.ts';

const Pod = resource('v1', 'Pod');
const read = (query: Record<string, string>) => listRequest(Pod, new URLSearchParams(query), undefined);

describe('the options of a list', () => {
  it.each([
    ['', undefined],
    ['0', undefined],
    ['-9223372036854775808', undefined],
    ['+5', 5],
    ['00000000000000000000500', 500],
    // The largest int64, beyond any limit of the server.
    ['9223372036854775807', 2 ** 63],
  ])('have the limit %j as strconv.ParseInt reads it', (limit, expected) => {
    expect(read({ limit, timeoutSeconds: limit }).limit).toBe(expected);
  });

  it.each([
    ['limit', '9223372036854775808', 'value out of range'],
    ['timeoutSeconds', '-9223372036854775809', 'value out of range'],
    ['limit', '5s', 'invalid syntax'],
    ['limit', '1_000', 'invalid syntax'],
    ['timeoutSeconds', ' 5', 'invalid syntax'],
  ])('refuse the %s %j', (name, text, why) => {
    expect(() => read({ [name]: text })).toThrow(`strconv.ParseInt: parsing ${JSON.stringify(text)}: ${why}`);
  });

  it('refuse a label selector with a no-break space in a key', () => {
    expect(() => read({ labelSelector: 'app\u00a0=web' })).toThrow('unable to parse requirement');
  });
});
