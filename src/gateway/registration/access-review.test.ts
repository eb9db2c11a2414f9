import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { eventually } from '../../../test/harness/eventually.ts';
import { VirtualClock } from '../../../test/harness/test-clock.ts';
import { resource } from '../../core/index.ts';
import { AccessReviews, type WantedAccess } from './access-review.ts';
import type { InvalidFunctionError } from './invalid-function-error.ts';

interface Review {
  readonly spec: {
    readonly user: string;
    readonly groups: readonly string[];
    readonly resourceAttributes: Readonly<Record<string, string>>;
  };
}

const pods = resource('v1', 'Pod');
const deployments = resource('apps/v1', 'Deployment');
const nodes = resource('v1', 'Node', { namespaced: false });
const account = { namespace: 'shop', name: 'reader' };

let server: ScriptedApiserver;
let asked: Review['spec'][];
/** Decides for `verb namespace/plural` whether it is allowed. */
let allows: (right: string) => object;

beforeEach(async () => {
  server = await ScriptedApiserver.start();
  asked = [];
  allows = () => ({ allowed: true });
  server.answer((_, body) => {
    const { spec } = body as Review;
    asked.push(spec);
    const { verb, namespace = '*', resource: plural, subresource } = spec.resourceAttributes;
    const what = subresource === undefined ? plural : `${plural}/${subresource}`;
    return { status: allows(`${verb} ${namespace}/${what}`) };
  });
});
afterEach(() => server[Symbol.asyncDispose]());

let clock: VirtualClock;
let reviews: AccessReviews;
beforeEach(() => {
  clock = new VirtualClock();
  reviews = new AccessReviews(clock);
});

const review = (...wanted: (Omit<WantedAccess, 'field' | 'namespaces'> & { namespaces?: string[] })[]) =>
  reviews.review(
    server.client,
    account,
    wanted.map(({ namespaces, ...rest }, at) => ({ field: `spec.reads[${at}]`, namespaces, ...rest })),
    AbortSignal.timeout(10_000),
  );

describe('the review of what a ServiceAccount may read', () => {
  it('asks for it with the groups of its tokens, each verb by itself', async () => {
    expect(await review({ resource: deployments, namespaces: ['shop'] })).toEqual({ 'apps/v1/Deployment': ['shop'] });
    expect(new Set(asked.map(({ resourceAttributes }) => resourceAttributes['verb']))).toEqual(
      new Set(['get', 'list', 'watch']),
    );
    for (const { user, groups, resourceAttributes } of asked) {
      expect(user).toBe('system:serviceaccount:shop:reader');
      expect(groups).toEqual(['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated']);
      expect(resourceAttributes).toMatchObject({
        group: 'apps',
        version: 'v1',
        resource: 'deployments',
        namespace: 'shop',
      });
    }
  });

  it.each<[string, Parameters<typeof review>, object]>([
    ['all namespaces of a kind', [{ resource: pods }], { 'v1/Pod': '*' }],
    ['a kind without any', [{ resource: nodes }], { 'v1/Node': '*' }],
    [
      'the namespaces of every place that names the kind',
      [{ resource: pods, namespaces: ['a', 'b'] }, { resource: nodes }, { resource: pods, namespaces: ['b', 'c'] }],
      { 'v1/Pod': ['a', 'b', 'c'], 'v1/Node': '*' },
    ],
    ['all when one place names all', [{ resource: pods, namespaces: ['a'] }, { resource: pods }], { 'v1/Pod': '*' }],
    ['all whichever comes first', [{ resource: pods }, { resource: pods, namespaces: ['a'] }], { 'v1/Pod': '*' }],
  ])('allows %s', async (_what, wanted, scope) => {
    expect(await review(...wanted)).toEqual(scope);
    // Where all are asked for, no namespace is named: that would be another question.
    const places = asked.map(({ resourceAttributes }) => resourceAttributes['namespace']);
    expect(places.includes(undefined)).toBe(Object.values(scope).includes('*'));
  });

  it.each<[string, (right: string) => object, string]>([
    [
      'one verb is missing',
      (right) => ({ allowed: !right.startsWith('watch b/') }),
      'may not watch v1/Pod in the namespace b',
    ],
    [
      'somebody denies it',
      () => ({ allowed: true, denied: true }),
      'may not get, list, watch v1/Pod in the namespace a',
    ],
    ['nobody has an opinion', () => ({}), 'may not get, list, watch'],
  ])('refuses all when %s', async (_what, answers, message) => {
    allows = answers;
    const invalid = (await review({ resource: pods, namespaces: ['a', 'b'] }).catch(
      (error: unknown) => error,
    )) as InvalidFunctionError;
    expect(invalid).toMatchObject({ condition: 'Authorized', reason: 'Forbidden' });
    expect(invalid.message).toContain(`spec.reads[0]: the ServiceAccount shop/reader ${message}`);
  });

  it('asks each question once, however often a declaration names a kind and a namespace', async () => {
    const namespaces = Array.from({ length: 100 }, () => 'a');
    await review(...Array.from({ length: 32 }, () => ({ resource: pods, namespaces })));
    expect(asked.map(({ resourceAttributes: { verb } }) => verb)).toEqual(['get', 'list', 'watch']);
  });

  it('shares the granted rights of an account for ten seconds, or until rights change', async () => {
    await Promise.all([review({ resource: pods }), review({ resource: pods })]);
    clock.jump(9999);
    await review({ resource: pods });
    expect(asked).toHaveLength(3);
    clock.jump(1);
    await review({ resource: pods });
    expect(asked).toHaveLength(6);
    allows = () => ({ allowed: false });
    await review({ resource: pods });
    reviews.forget();
    await expect(review({ resource: pods })).rejects.toThrow('may not get, list, watch');
    expect(asked).toHaveLength(9);
    // A refusal is not shared: the right may have been granted since.
    allows = () => ({ allowed: true });
    await review({ resource: pods });
    expect(asked).toHaveLength(12);
  });

  it('shares no answer of another account, and no failure', async () => {
    await review({ resource: pods });
    const other = { namespace: 'shop', name: 'writer' };
    const wanted = [{ field: 'spec.for', resource: pods, namespaces: undefined }];
    await reviews.review(server.client, other, wanted, AbortSignal.timeout(10_000));
    expect(asked.filter(({ user }) => user === 'system:serviceaccount:shop:writer')).toHaveLength(3);
    reviews.forget();
    const silent = await ScriptedApiserver.start();
    const giveUp = new AbortController();
    const waiting = reviews.review(silent.client, other, wanted, giveUp.signal);
    giveUp.abort(new Error('the object has changed'));
    await expect(waiting).rejects.toThrow('the object has changed');
    await silent[Symbol.asyncDispose]();
    // The abandoned question fails when its server is gone.
    await eventually(async () => reviews.review(server.client, other, wanted, AbortSignal.timeout(10_000)));
  });

  it('does not take the right in a namespace for that in all', async () => {
    allows = (right) => ({ allowed: !right.includes('*') });
    await expect(review({ resource: pods })).rejects.toThrow('in all namespaces: grant it, or name namespaces in spec');
    await expect(review({ resource: nodes })).rejects.toThrow(/may not get, list, watch v1\/Node: grant it$/);
  });

  it('asks for the right to write what is changed, with its subresources', async () => {
    allows = (right) => ({ allowed: right !== 'create a/pods' && right !== 'update a/pods/scale' });
    const wanted = { resource: pods, namespaces: ['a'], changes: ['', 'scale'] };
    await expect(review(wanted)).rejects.toThrow(
      'spec.reads[0]: the ServiceAccount shop/reader may not create, update the subresource scale of v1/Pod in the namespace a: grant it',
    );
    expect(asked.map(({ resourceAttributes: { verb, subresource } }) => `${verb} ${subresource}`)).toContain(
      'create scale',
    );
    await expect(review({ ...wanted, changes: [] })).resolves.toEqual({ 'v1/Pod': ['a'] });
  });

  it('does not offer to name namespaces where none can be named', async () => {
    allows = () => ({ allowed: false });
    await expect(review({ resource: pods, isEverywhere: true })).rejects.toThrow(/in all namespaces: grant it$/);
  });
});
