import { describe, expect, it } from 'vitest';
import { type LookupAll, lookupInTurn } from './name-lookups.ts';

const ADDRESS = { address: '10.0.0.7', family: 4 } as const;

describe('a name is looked up in the turn of its tenant', () => {
  it('however many names of another tenant have no answer', async () => {
    const unanswered: Parameters<LookupAll>[2][] = [];
    const silent: LookupAll = (_name, _options, callback) => void unanswered.push(callback);
    const ended: Promise<unknown>[] = [];
    for (let at = 0; at < 100; at += 1) {
      ended.push(new Promise((resolve) => lookupInTurn('many.', `silent-${at}.example.com`, {}, resolve, silent)));
    }
    for (const name of ['one', 'two', 'three', 'four', 'five']) {
      const found = await new Promise((resolve) =>
        lookupInTurn(
          'other.',
          name,
          {},
          (_, all) => resolve(all),
          (_name, _options, callback) => callback(null, [ADDRESS]),
        ),
      );
      expect(found).toEqual([ADDRESS]);
    }
    expect(unanswered.length).toBeLessThan(10);
    while (unanswered.length > 0) {
      unanswered.shift()?.(null, []);
      await Promise.resolve();
      await new Promise((next) => setImmediate(next));
    }
    await Promise.all(ended);
  });

  it('and fails when the lookup throws', async () => {
    const find: LookupAll = () => {
      throw new TypeError('not a name');
    };
    const error = await new Promise((resolve) => lookupInTurn('a.', 'name', {}, resolve, find));
    expect(error).toMatchObject({ message: 'not a name' });
  });

  it('by the system, which knows this machine', async () => {
    const found = await new Promise((resolve) =>
      lookupInTurn('a.', 'localhost', { family: 4 }, (_, all) => resolve(all)),
    );
    expect(found).toContainEqual({ address: '127.0.0.1', family: 4 });
  });
});
