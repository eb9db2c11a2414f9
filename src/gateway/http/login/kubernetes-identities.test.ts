import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError, type LogFields, resource, silentLogger } from '../../../core/index.ts';
import type { ApiRequest } from '../../../ground/apiserver/api-client.ts';
import { LoginUnavailableError } from './identity.ts';
import { KubernetesIdentities } from './kubernetes-identities.ts';

const ANN = { username: 'ann', uid: 'u1', groups: ['devs'], extra: { scopes: ['x'] } };
let nowMs: number;
/** The questions to the apiserver, as `kind` and `spec`. */
let asked: { kind: string; spec: Record<string, unknown> }[];
let answer: (kind: string, spec: Record<string, unknown>) => object;
let logged: LogFields[];
let identities: KubernetesIdentities;

beforeEach(() => {
  nowMs = 0;
  asked = [];
  logged = [];
  answer = (kind, { token }) =>
    kind === 'TokenReview' ? { authenticated: token === 'good', user: ANN } : { allowed: true };
  const json = async ({ body }: ApiRequest): Promise<unknown> => {
    const { kind, spec } = body as (typeof asked)[number];
    asked.push({ kind, spec });
    return { status: answer(kind, spec) };
  };
  identities = new KubernetesIdentities({
    client: { json: json as <T>(request: ApiRequest) => Promise<T> },
    clock: { now: () => nowMs },
    logger: { ...silentLogger, warn: (fields) => logged.push(fields) },
  });
});

const kinds = (): string[] => asked.map(({ kind }) => kind);

describe('KubernetesIdentities', () => {
  it('asks about the user as TokenReview has named it, by path and method', async () => {
    const ann = await identities.identify('good');
    expect(ann).toMatchObject({ name: 'ann', from: 'kubernetes' });
    expect(await ann?.may('post', '/queues/web/pause')).toBe(true);
    expect(asked.at(-1)).toEqual({
      kind: 'SubjectAccessReview',
      spec: {
        user: 'ann',
        uid: 'u1',
        groups: ['devs', 'system:authenticated'],
        extra: { scopes: ['x'] },
        nonResourceAttributes: { path: '/queues/web/pause', verb: 'post' },
      },
    });
  });

  it.each([
    [
      { namespace: 'shop', name: 'web' },
      { verb: 'get', namespace: 'shop', name: 'web' },
    ],
    [{ namespace: 'shop' }, { verb: 'list', namespace: 'shop' }],
    [{}, { verb: 'list' }],
  ])('asks whether the user may read %j of a kind', async (read, attributes) => {
    const ann = await identities.identify('good');
    expect(await ann?.mayRead({ resource: resource('apps/v1', 'Deployment'), ...read })).toBe(true);
    const kind = { group: 'apps', version: 'v1', resource: 'deployments' };
    expect(asked.at(-1)?.spec['resourceAttributes']).toEqual({ ...kind, ...attributes });
  });

  it('asks about the whole cluster for a kind without namespaces: a Role of a namespace grants nothing there', async () => {
    const ann = await identities.identify('good');
    await ann?.mayRead({ resource: resource('v1', 'Node', { namespaced: false }), namespace: 'shop', name: 'n1' });
    const kind = { group: '', version: 'v1', resource: 'nodes' };
    expect(asked.at(-1)?.spec['resourceAttributes']).toEqual({ ...kind, verb: 'get', name: 'n1' });
  });

  it('uses each answer for ten seconds, for its own user, method and path', async () => {
    const ann = await identities.identify('good');
    await identities.identify('good');
    for (const path of ['/queues', '/queues', '/dashboard']) await ann?.may('get', path);
    await ann?.may('post', '/queues');
    expect(kinds()).toEqual(['TokenReview', ...Array.from({ length: 3 }, () => 'SubjectAccessReview')]);
    answer = (kind) => (kind === 'TokenReview' ? { authenticated: false } : { allowed: false });
    nowMs = 9999;
    expect(await identities.identify('good')).toBeDefined();
    expect(await ann?.may('get', '/queues')).toBe(true);
    nowMs = 10_000;
    expect(await identities.identify('good')).toBeUndefined();
    expect(await ann?.may('get', '/queues')).toBe(false);
  });

  it.each([
    { authenticated: false, user: ANN },
    { user: ANN },
    { authenticated: 'true', user: ANN },
    { authenticated: true },
    { authenticated: true, user: { username: '' } },
    {},
  ])('takes %j for no user', async (status) => {
    answer = () => status;
    expect(await identities.identify('any')).toBeUndefined();
  });

  it.each([{ allowed: false }, { allowed: true, denied: true }, { allowed: 'true' }, {}])(
    'takes %j for no right',
    async (status) => {
      const ann = await identities.identify('good');
      answer = () => status;
      expect(await ann?.may('get', '/queues')).toBe(false);
    },
  );

  it('reviews few guesses a second, and goes on reviewing tokens that were valid', async () => {
    await identities.identify('good');
    const guesses = await Promise.allSettled(
      Array.from({ length: 40 }, async (_, at) => identities.identify(`guess-${at}`)),
    );
    expect(guesses.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
    expect(asked.length).toBeLessThanOrEqual(30);
    nowMs = 10_000;
    for (let at = 0; at < 200; at += 1) await identities.identify(`more-${at}`).catch(() => {});
    expect(await identities.identify('good')).toBeDefined();
  });

  it('asks nothing about a text that is longer than a header', async () => {
    expect(await identities.identify('x'.repeat(20_000))).toBeUndefined();
    expect(asked).toEqual([]);
  });

  it('says that it has no right to ask, and logs no token', async () => {
    answer = () => {
      throw new ApiError({ code: 403, reason: 'Forbidden', message: 'the token secret-token is refused' });
    };
    await expect(identities.identify('secret-token')).rejects.toThrow(/system:auth-delegator/);
    await expect(identities.identify('secret-token')).rejects.toThrow(LoginUnavailableError);
    expect(logged).toEqual([{ review: 'TokenReview', error: '403 Forbidden' }]);
  });
});
