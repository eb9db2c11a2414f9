import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource, silentLogger, systemClock } from '../../../src/core/index.ts';
import { AccountTokens, type FunctionAccount } from '../../../src/gateway/controller/access/account-tokens.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('renewal');
const accounts = resource('v1', 'ServiceAccount');
const started = new Started();
let cluster: Cluster;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
});

afterAll(() => started.stop());

/** As whom the apiserver knows the bearer of a token; undefined when it is no good. */
async function userOf(token: string): Promise<string | undefined> {
  const review = await cluster.client.json<{ status?: { authenticated?: boolean; user?: { username?: string } } }>({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } },
  });
  return review.status?.authenticated ? review.status.user?.username : undefined;
}

describe('tokens of a real apiserver', () => {
  it('are renewed before they expire, and end with their ServiceAccount', async () => {
    const { metadata } = await cluster.create(accounts, { metadata: { namespace, name: 'sa' } });
    const account: FunctionAccount = {
      credentials: 'token',
      controller: 'c',
      namespace,
      name: 'sa',
      uid: metadata.uid,
    };
    // The shortest life that the apiserver grants is ten minutes.
    let laterMs = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + laterMs };
    const tokens = new AccountTokens({ client: cluster.client, clock, logger: silentLogger });
    const first = await tokens.token(account, 15_000);
    laterMs = 481_000;
    // The first goes on to be used while the second is asked for.
    expect(await tokens.token(account, 15_000)).toBe(first);
    const second = await eventually(async () => {
      const token = await tokens.token(account, 15_000);
      expect(token).not.toBe(first);
      return token;
    });
    const user = `system:serviceaccount:${namespace}:sa`;
    expect([await userOf(first), await userOf(second)]).toEqual([user, user]);

    await cluster.delete(accounts, { namespace, name: 'sa' });
    await eventually(async () => expect([await userOf(first), await userOf(second)]).toEqual([undefined, undefined]));
    laterMs += 600_000;
    await expect(tokens.token(account, 15_000)).rejects.toMatchObject({ code: 404, reason: 'NotFound' });
    await cluster.create(accounts, { metadata: { namespace, name: 'sa' } });
    // Another account of the same name.
    await expect(tokens.token(account, 15_000)).rejects.toMatchObject({ code: 409 });
  });
});
