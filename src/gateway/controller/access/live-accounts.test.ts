import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError } from '../../../core/index.ts';
import { type ApiClient, type ApiRequest, AnswerTooLargeError } from '../../../ground/apiserver/api-client.ts';
import type { FunctionAccount } from './account-tokens.ts';
import { LiveAccounts } from './live-accounts.ts';

const account: FunctionAccount = { credentials: 'proxy', controller: 'ns.f', namespace: 'ns', name: 'sa', uid: 'u1' };

let nowMs: number;
let requests: ApiRequest[];
/** Who has paid for each. */
let payers: unknown[];
/** The UID that the apiserver has, or its error. */
let live: string | Error;
/** While it is there, the apiserver does not answer. */
let held: PromiseWithResolvers<void> | undefined;
let replaced: string[];
let accounts: LiveAccounts;

const GONE = new ApiError({ code: 404 });
/** Waits until background work has ended. */
const settled = async (): Promise<void> => void (await new Promise((resolve) => setImmediate(resolve)));

beforeEach(() => {
  nowMs = 1_000_000;
  [requests, payers, replaced] = [[], [], []];
  [live, held] = ['u1', undefined];
  const json = async (request: ApiRequest): Promise<unknown> => {
    requests.push(request);
    const now = live;
    await held?.promise;
    if (now instanceof Error) throw now;
    return { metadata: { uid: now } };
  };
  accounts = new LiveAccounts({
    client: {
      for: (...payer: unknown[]) => {
        payers.push(payer);
        return { json } as unknown as ApiClient;
      },
    },
    clock: { now: () => nowMs },
    onReplaced: ({ controller, uid }) => replaced.push(`${controller} ${uid}`),
  });
});

describe.each(['isThere', 'wasThere'] as const)('the look at an account, as `%s` reads it', (method) => {
  const ask = (of: FunctionAccount = account): Promise<boolean> => accounts[method](of);

  it('is one for all requests of all functions with the account, ahead of other requests of the first', async () => {
    const other = { ...account, controller: 'ns.other' };
    expect(await Promise.all([ask(), ask(other), ask()])).toEqual([true, true, true]);
    nowMs += 1499;
    expect(await ask(other)).toBe(true);
    expect(requests).toMatchObject([{ path: '/api/v1/namespaces/ns/serviceaccounts/sa' }]);
    expect(payers).toEqual([['ns.f', { isUrgent: true }]]);
    expect(replaced).toEqual([]);
  });

  it('is at most two seconds old', async () => {
    await ask();
    live = 'u2';
    nowMs += 2000;
    expect(await ask()).toBe(false);
    expect(await ask({ ...account, uid: 'u2' })).toBe(true);
    expect(requests).toHaveLength(2);
    expect(replaced).toEqual(['ns.f u1']);
  });

  it('is made again for a declaration that names another account, which may be newer than the look', async () => {
    await ask();
    live = 'u2';
    nowMs += 250;
    expect(await ask({ ...account, uid: 'u2' })).toBe(true);
    // A token of the old account asks no more often than that.
    for (let at = 0; at < 10; at += 1) expect(await ask()).toBe(false);
    expect(requests).toHaveLength(2);
  });

  it('is renewed in the background while requests keep coming, so that none waits', async () => {
    await ask();
    held = Promise.withResolvers();
    nowMs += 1500;
    for (let at = 0; at < 10; at += 1) expect(await ask()).toBe(true);
    expect(requests).toHaveLength(2);
    held.resolve();
    await settled();
    // Two seconds after the first look, and not yet after the second.
    nowMs += 600;
    expect(await ask()).toBe(true);
    expect(requests).toHaveLength(2);
  });

  it('counts from its question on, however long the answer takes', async () => {
    held = Promise.withResolvers();
    const asked = ask();
    nowMs += 1900;
    held.resolve();
    expect(await asked).toBe(true);
    live = GONE;
    nowMs += 100;
    expect(await ask()).toBe(false);
  });

  it.each([
    ['deleted', GONE],
    ['too large to be read', new AnswerTooLargeError('256 KiB')],
  ])('finds an account that is %s to be gone', async (_how, answer) => {
    live = answer;
    expect(await ask()).toBe(false);
    expect(replaced).toEqual(['ns.f u1']);
  });

  it('is made anew for an account that 4096 others have followed', async () => {
    await ask();
    for (let at = 0; at < 4096; at += 1) await ask({ ...account, name: `sa-${at}` });
    await ask();
    expect(requests).toHaveLength(4098);
  });
});

describe('while the apiserver does not answer', () => {
  it('no account is there for sure', async () => {
    await accounts.isThere(account);
    live = new Error('no connection');
    nowMs += 1999;
    expect(await accounts.isThere(account)).toBe(true);
    await settled();
    nowMs += 1;
    await expect(accounts.isThere(account)).rejects.toThrow('no connection');
    live = 'u1';
    expect(await accounts.isThere(account)).toBe(true);
  });

  it('an account that was there counts as there, and one that was gone as gone', async () => {
    live = new Error('no connection');
    expect(await accounts.wasThere(account)).toBe(true);
    for (const [answer, isThere] of [
      ['u1', true],
      ['u2', false],
    ] as const) {
      nowMs += 60_000;
      live = answer;
      expect(await accounts.wasThere(account)).toBe(isThere);
      nowMs += 60_000;
      live = new Error('no connection');
      expect(await accounts.wasThere(account)).toBe(isThere);
    }
  });

  it('only the first read waits, and the others ask no more often than before', async () => {
    await accounts.wasThere(account);
    nowMs += 10_000;
    held = Promise.withResolvers();
    live = new Error('no answer in time');
    const first = accounts.wasThere(account);
    nowMs += 2000;
    held.resolve();
    expect(await first).toBe(true);
    held = Promise.withResolvers();
    for (let at = 0; at < 10; at += 1) expect(await accounts.wasThere(account)).toBe(true);
    expect(requests).toHaveLength(2);
    nowMs += 1500;
    for (let at = 0; at < 10; at += 1) expect(await accounts.wasThere(account)).toBe(true);
    expect(requests).toHaveLength(3);
  });
});
