import { describe, expect, it } from 'vitest';
import { nextConditions } from './conditions.ts';
import type { Content } from './content.ts';
import type { Leftover } from './kind.ts';

const now = Date.parse('2026-01-01T00:01:00.500Z');
const leftover = (plural: string, count: number, parts: Partial<Leftover> = {}): Leftover => ({
  resource: { apiVersion: 'apps/v1', kind: 'K', plural, namespaced: true, verbs: [] },
  count,
  finalizers: new Map(),
  estimateSeconds: 0,
  ...parts,
});
const empty: Content = { leftovers: [] };
const messagesOf = (content: Content) => nextConditions([], content, now).map(({ message }) => message);

describe('nextConditions', () => {
  it('says of each of the five that it is fine, once', () => {
    const conditions = nextConditions([], empty, now);
    expect(conditions).toMatchObject([
      { type: 'NamespaceDeletionDiscoveryFailure', status: 'False', reason: 'ResourcesDiscovered' },
      { type: 'NamespaceDeletionGroupVersionParsingFailure', status: 'False', reason: 'ParsedGroupVersions' },
      { type: 'NamespaceDeletionContentFailure', status: 'False', reason: 'ContentDeleted' },
      { type: 'NamespaceContentRemaining', status: 'False', reason: 'ContentRemoved' },
      { type: 'NamespaceFinalizersRemaining', status: 'False', reason: 'ContentHasNoFinalizers' },
    ]);
    expect(conditions[0]?.lastTransitionTime).toBe('2026-01-01T00:01:00Z');
    expect(nextConditions(conditions, empty, now + 60_000)).toBe(conditions);
  });

  it('adds up what is left, in a fixed order', () => {
    const leftovers = [
      leftover('b', 2, { finalizers: new Map([['y', 2]]) }),
      leftover('a', 1, { finalizers: new Map([['x', 1]]) }),
      leftover('c', 1, { finalizers: new Map([['y', 1]]), error: new Error('two') }),
      leftover('d', 0, { error: new Error('one') }),
    ];
    expect(messagesOf({ leftovers })).toEqual([
      'All resources successfully discovered',
      'All legacy kube types successfully parsed',
      'Failed to delete all resource types, 2 remaining: one, two',
      'Some resources are remaining: a.apps has 1 resource instances, b.apps has 2 resource instances, c.apps has 1 resource instances',
      'Some content in the namespace has finalizers remaining: x in 1 resource instances, y in 3 resource instances',
    ]);
    expect(messagesOf({ leftovers: leftovers.toReversed() })).toEqual(messagesOf({ leftovers }));
  });

  it('keeps the time of a condition whose words change, and sets it when it turns', () => {
    const first = nextConditions([], { leftovers: [leftover('a', 2)] }, now);
    const fewer = nextConditions(first, { leftovers: [leftover('a', 1)] }, now + 5000);
    expect(fewer[3]).toMatchObject({ status: 'True', lastTransitionTime: '2026-01-01T00:01:00Z' });
    expect(fewer[3]?.message).not.toBe(first[3]?.message);
    expect(nextConditions(fewer, empty, now + 5000)[3]).toMatchObject({
      status: 'False',
      lastTransitionTime: '2026-01-01T00:01:05Z',
    });
  });

  it('keeps the conditions of others', () => {
    const theirs = { type: 'Theirs', status: 'True' } as const;
    expect(nextConditions([theirs], empty, now)[0]).toBe(theirs);
  });

  it('says why kinds are not known', () => {
    expect(
      messagesOf({ discoveryFailure: 'no answer', parsingFailure: 'bad name', leftovers: [] }).slice(0, 2),
    ).toEqual(['no answer', 'bad name']);
  });
});
