import { describe, expect, it } from 'vitest';
import { decodeDescription } from './describe.ts';

const url = 'http://127.0.0.1:8080';
const least = { version: 'v1', name: 'web', for: { apiVersion: 'v1', kind: 'Pod' } };

describe('a function of another version', () => {
  it('of this contract may say more than this gateway knows, and less', () => {
    expect(decodeDescription({ ...least, later: 1, for: { ...least.for, later: 2 } }, url)).toEqual({
      ...least,
      owns: [],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 1,
      timeoutSeconds: 15,
    });
  });

  it('of another contract is refused, and told which one is spoken here', () => {
    expect(() => decodeDescription({ ...least, version: 'v2' }, url)).toThrow(
      'http://127.0.0.1:8080 speaks contract v2, and this gateway v1: update the older one',
    );
  });

  it('is not shown what a server that is no function has in a field of that name', () => {
    for (const version of ['hunter2', 'v1.36.0-secret', 'x'.repeat(100_000)]) {
      const decode = () => decodeDescription({ version }, url);
      expect(decode).toThrow(
        'http://127.0.0.1:8080 speaks another contract, and this gateway v1: update the older one',
      );
    }
  });

  it.each([undefined, null, 'v1', [], {}, { ...least, version: 1 }, { ...least, name: 'No' }])(
    '%o is refused',
    (value) => {
      expect(() => decodeDescription(value, url)).toThrow(/the description of http:\/\/127\.0\.0\.1:8080 is wrong at/);
    },
  );
});
