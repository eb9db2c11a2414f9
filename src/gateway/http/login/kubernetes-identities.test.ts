import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError, type LogFields, resource, silentLogger } from '../../../core/index.ts';
import type { ApiRequest } from '../../../ground/apiserver/api-client.ts';
import { type Identity, LoginUnavailableError } from './identity.ts';
import { KubernetesIdentities } from './kubernetes-identities.ts';

const ANN = { username: 'ann', uid: 'u1', groups: ['devs'], extra: { scopes: ['x'] } };
let nowMs: number;
/** The questions to the apiserver, as `kind` and `spec`. */
let asked: { kind: string; spec: Record<string, unknown> }[];
let answer: (kind: string, spec: Record<string, unknown>) => object;
let logged: LogFields[];
/** The apiserver answers when it has resolved. */
let held: Promise<void>;
let identities: KubernetesIdentities;

beforeEach(() => {
  nowMs = 0;
  asked = [];
  logged = [];
  held = Promise.resolve();
  answer = (kind, { token }) =>
    kind === 'TokenReview' ? { authenticated: String(token).startsWith('good'), user: ANN } : { allowed: true };
  const json = async ({ body }: ApiRequest): Promise<unknown> => {
    const { kind, spec } = body as (typeof asked)[number];
    asked.push({ kind, spec });
    await held;
    return { status: answer(kind, spec) };
  };
  identities = new KubernetesIdentities({
    client: { json: json as <T>(request: ApiRequest) => Promise<T> },
    clock: { now: () => nowMs },
    logger: { ...silentLogger, warn: (fields) => logged.push(fields) },
  });
});

/** @param name of the address that the token comes from. */
const identify = (token: string, name = '10.0.0.1') => identities.identify(token, { name });
const kinds = (): string[] => asked.map(({ kind }) => kind);

describe('KubernetesIdentities', () => {
  it('asks about the user as TokenReview has named it, by path and method', async () => {
    const ann = await identify('good');
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
    const ann = await identify('good');
    expect(await ann?.mayRead({ resource: resource('apps/v1', 'Deployment'), ...read })).toBe(true);
    const kind = { group: 'apps', version: 'v1', resource: 'deployments' };
    expect(asked.at(-1)?.spec['resourceAttributes']).toEqual({ ...kind, ...attributes });
  });

  it('asks about the whole cluster for a kind without namespaces: a Role of a namespace grants nothing there', async () => {
    const ann = await identify('good');
    await ann?.mayRead({ resource: resource('v1', 'Node', { namespaced: false }), namespace: 'shop', name: 'n1' });
    const kind = { group: '', version: 'v1', resource: 'nodes' };
    expect(asked.at(-1)?.spec['resourceAttributes']).toEqual({ ...kind, verb: 'get', name: 'n1' });
  });

  it('uses each answer for ten seconds, for its own user, method and path', async () => {
    const ann = await identify('good');
    await identify('good');
    for (const path of ['/queues', '/queues', '/dashboard']) await ann?.may('get', path);
    await ann?.may('post', '/queues');
    expect(kinds()).toEqual(['TokenReview', ...Array.from({ length: 3 }, () => 'SubjectAccessReview')]);
    answer = (kind) => (kind === 'TokenReview' ? { authenticated: false } : { allowed: false });
    nowMs = 9999;
    expect(await identify('good')).toBeDefined();
    expect(await ann?.may('get', '/queues')).toBe(true);
    nowMs = 10_000;
    expect(await identify('good')).toBeUndefined();
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
    expect(await identify('any')).toBeUndefined();
  });

  it.each([{ allowed: false }, { allowed: true, denied: true }, { allowed: 'true' }, {}])(
    'takes %j for no right',
    async (status) => {
      const ann = await identify('good');
      answer = () => status;
      expect(await ann?.may('get', '/queues')).toBe(false);
    },
  );

  describe('while the apiserver is slow', () => {
    /** More than one client may ask about at once. */
    const MANY = Array.from({ length: 60 }, (_, at) => `${at}`);

    /** From now on the apiserver answers nothing until the returned function is called. */
    function holdAnswers(): () => void {
      const waiting = Promise.withResolvers<void>();
      held = waiting.promise;
      return waiting.resolve;
    }

    /** How many of the questions are refused at once. */
    async function refusedOf(questions: readonly Promise<unknown>[]): Promise<number> {
      let refused = 0;
      for (const each of questions) each.catch(() => (refused += 1));
      await nextTurn();
      return refused;
    }

    it('the askers take turns, so that a person waits for few questions of each pod', async () => {
      await identify('good');
      const answerAll = holdAnswers();
      const guesses = ['10.0.0.2', '10.0.0.3'].flatMap((from) => MANY.map((each) => identify(`${from}-${each}`, from)));
      for (const each of guesses) each.catch(() => {});
      const first = identify('good too', '10.0.0.9');
      await nextTurn();
      expect(asked.length).toBeLessThan(12);
      answerAll();
      await first;
      // Each place that was free again was given to the next asker.
      const turn = asked.findIndex(({ spec }) => spec['token'] === 'good too');
      expect(turn).toBeLessThan(12);
      await Promise.allSettled(guesses);
    });

    it('guesses from one address leave room for a first login from another, and for a token that was valid', async () => {
      await identify('good');
      nowMs = 10_000;
      const answerAll = holdAnswers();
      expect(await refusedOf(MANY.map((each) => identify(`guess-${each}`)))).toBeGreaterThan(0);
      const [again, first] = [identify('good'), identify('good too', '10.0.0.2')];
      answerAll();
      expect(await again).toMatchObject({ name: 'ann' });
      expect(await first).toMatchObject({ name: 'ann' });
    });

    it('guesses from 50 addresses, too, and the apiserver is asked about few of them before', async () => {
      await identify('good');
      const addresses = Array.from({ length: 50 }, (_, at) => `10.0.1.${at}`);
      const guessAll = (round: string) => addresses.map((from) => identify(`guess-${round}-${from}`, from));
      await Promise.all(guessAll('first'));
      nowMs = 10_000;
      asked = [];
      const answerAll = holdAnswers();
      const guesses = MANY.flatMap((each) => guessAll(each));
      expect(await refusedOf(guesses)).toBeGreaterThan(0);
      const [again, first] = [identify('good'), identify('good too', '10.0.0.2')];
      await nextTurn();
      expect(asked.length).toBeLessThan(8);
      expect(asked.map(({ spec }) => spec['token'])).toEqual(expect.arrayContaining(['good', 'good too']));
      answerAll();
      expect(await again).toMatchObject({ name: 'ann' });
      expect(await first).toMatchObject({ name: 'ann' });
      await Promise.allSettled(guesses);
    });

    it('the ServiceAccounts of one namespace, which may ask about any path, leave room for other users', async () => {
      const user = async (username: string): Promise<Identity | undefined> => {
        answer = () => ({ authenticated: true, user: { username }, allowed: true });
        return identify(username);
      };
      const a = await user('system:serviceaccount:tenant:a');
      const b = await user('system:serviceaccount:tenant:b');
      const ann = await user('ann');
      const answerAll = holdAnswers();
      const questions = MANY.flatMap((each) => [a, b].map(async (of) => of?.may('get', `/queues/${each}-${of.name}`)));
      expect(await refusedOf(questions)).toBeGreaterThan(0);
      const mayRead = ann?.may('get', '/queues');
      answerAll();
      expect(await mayRead).toBe(true);
    });
  });

  it('asks nothing about a text that is longer than a header', async () => {
    expect(await identify('x'.repeat(20_000))).toBeUndefined();
    expect(asked).toEqual([]);
  });

  it('says that it has no right to ask, and logs no token', async () => {
    answer = () => {
      throw new ApiError({ code: 403, reason: 'Forbidden', message: 'the token secret-token is refused' });
    };
    await expect(identify('secret-token')).rejects.toThrow(/system:auth-delegator/);
    await expect(identify('secret-token')).rejects.toThrow(LoginUnavailableError);
    expect(logged).toEqual([{ review: 'TokenReview', error: '403 Forbidden' }]);
  });
});
