import { beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '../../../core/index.ts';
import type { ApiClient, ApiRequest } from '../../../ground/apiserver/api-client.ts';
import { AccountTokens, type FunctionAccount } from './account-tokens.ts';

const account: FunctionAccount = { credentials: 'token', controller: 'ns.f', namespace: 'ns', name: 'sa', uid: 'u1' };

let nowMs: number;
let requests: ApiRequest[];
let answer: (request: ApiRequest) => Promise<unknown>;
let tokens: AccountTokens;

interface Body {
  readonly spec: { readonly expirationSeconds: number };
}
const bodyOf = (at: number): Body | undefined => requests[at]?.body as Body | undefined;
const granted = async ({ body }: ApiRequest): Promise<unknown> => ({
  spec: (body as Body).spec,
  status: { token: `token-${requests.length}` },
});
/** Waits until background work has ended. */
const settled = async (): Promise<void> => void (await new Promise((resolve) => setImmediate(resolve)));

beforeEach(() => {
  nowMs = 1_000_000;
  requests = [];
  answer = granted;
  const json = async (request: ApiRequest): Promise<unknown> => {
    requests.push(request);
    return answer(request);
  };
  const client = { for: () => ({ json }) as unknown as ApiClient };
  const clock = { now: () => nowMs, wallNow: () => 0, sleep: async () => {} };
  tokens = new AccountTokens({ client, clock, logger: silentLogger });
});

describe('tokens of ServiceAccounts', () => {
  it('are requested once for many triggers, for the apiserver and for no longer than needed', async () => {
    const all = await Promise.all([1, 2, 3].map(() => tokens.token(account, 15_000)));
    expect(all).toEqual(['token-1', 'token-1', 'token-1']);
    expect(await tokens.token(account, 15_000)).toBe('token-1');
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ method: 'POST', path: '/api/v1/namespaces/ns/serviceaccounts/sa/token' });
    expect(bodyOf(0)?.spec).toEqual({ expirationSeconds: 600 });
  });

  it('are renewed at 80 % of their life, in the background', async () => {
    await tokens.token(account, 15_000);
    nowMs += 479_999;
    expect(await tokens.token(account, 15_000)).toBe('token-1');
    expect(requests).toHaveLength(1);
    nowMs += 1;
    expect(await tokens.token(account, 15_000)).toBe('token-1');
    await settled();
    expect(requests).toHaveLength(2);
    expect(await tokens.token(account, 15_000)).toBe('token-2');
  });

  it('are good for the longest run: a trigger waits for a new one if the rest of the life is shorter', async () => {
    await tokens.token(account, 400_000);
    expect(bodyOf(0)?.spec).toEqual({ expirationSeconds: 800 });
    nowMs += 400_001;
    expect(await tokens.token(account, 400_000)).toBe('token-2');
  });

  it('are used to their end when they cannot be renewed, and asked for again every few seconds', async () => {
    await tokens.token(account, 15_000);
    answer = () => Promise.reject(new Error('away'));
    nowMs += 500_000;
    for (let at = 0; at < 3; at += 1) {
      expect(await tokens.token(account, 15_000)).toBe('token-1');
      await settled();
    }
    expect(requests).toHaveLength(2);
    nowMs += 5001;
    expect(await tokens.token(account, 15_000)).toBe('token-1');
    await settled();
    expect(requests).toHaveLength(3);
    nowMs += 80_000;
    await expect(tokens.token(account, 15_000)).rejects.toThrow('away');
  });

  it('of an account that was made anew are other ones', async () => {
    await tokens.token(account, 15_000);
    expect(await tokens.token({ ...account, uid: 'u2' }, 15_000)).toBe('token-2');
  });

  it('count from the life that the apiserver grants', async () => {
    answer = async () => ({ spec: { expirationSeconds: 60 }, status: { token: `token-${requests.length}` } });
    await tokens.token(account, 15_000);
    nowMs += 45_001;
    expect(await tokens.token(account, 15_000)).toBe('token-2');
  });

  it('are requested once for many triggers when the apiserver grants a shorter life than the longest run', async () => {
    answer = async () => ({ spec: { expirationSeconds: 3600 }, status: { token: `token-${requests.length}` } });
    for (let at = 0; at < 5; at += 1) expect(await tokens.token(account, 7_200_000)).toBe('token-1');
    expect(requests).toHaveLength(1);
    nowMs += 1_800_000;
    expect(await tokens.token(account, 7_200_000)).toBe('token-1');
    nowMs += 1;
    const all = await Promise.all([1, 2, 3].map(() => tokens.token(account, 7_200_000)));
    expect(all).toEqual(['token-2', 'token-2', 'token-2']);
    expect(requests).toHaveLength(2);
  });

  it('of a short life that was asked for are not used for longer runs', async () => {
    await tokens.token(account, 15_000);
    expect(await tokens.token(account, 7_200_000)).toBe('token-2');
    expect(bodyOf(1)?.spec).toEqual({ expirationSeconds: 14_400 });
  });
});
