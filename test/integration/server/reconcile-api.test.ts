import { describe, expect } from 'vitest';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilIdle } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

const CONTROLLER = 'asked';
/** What there is in the test's namespace: the last one is Kubernetes' own. */
const ALL = ['a', 'b', 'c', 'kube-root-ca.crt'];
const TOKENS = ['the-old-token-of-the-operator', 'the-new-token-of-the-operator'];

describe('POST /reconcile', () => {
  let namespace: string;
  let observer: Observer;
  let gateway: Opened;

  it.beforeAll(async ({ world }) => {
    const { cluster, setting, started } = world;
    ({ namespace } = world);
    const kind = { resource: configMaps, namespaces: [namespace] };
    observer = started.keep(await openObserver(setting, { name: CONTROLLER, for: kind, timeoutSeconds: 60 }));
    gateway = await world.gateway([observer.url], { LEVELHOOK_API_TOKENS: TOKENS.join(' ') });
    for (const name of ['a', 'b', 'c']) {
      const labels = { team: name === 'c' ? 'red' : 'blue' };
      await cluster.create(configMaps, { metadata: { namespace, name, labels } });
    }
    await eventually(async () => expect(new Set(keysSince(0))).toEqual(new Set(ALL)));
    await untilIdle(gateway.url);
  });

  /** Names in this test's namespace that ran from the `from`th observation on. */
  const keysSince = (from: number): string[] =>
    observer
      .seen({ from })
      .filter(({ key }) => key.startsWith(`${namespace}/`))
      .map(({ key }) => key.slice(namespace.length + 1));

  /** Asks until it is not put off. */
  async function ask(
    body: unknown,
    token = TOKENS[0] ?? '',
    url = gateway.url,
  ): Promise<{ status: number; body: unknown }> {
    return eventually(async () => {
      const response = await fetch(`${url}/reconcile`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
      if (response.headers.has('retry-after')) throw new Error(await response.text());
      return { status: response.status, body: await response.json() };
    });
  }

  it.each(TOKENS)('runs the keys that are named, in the cache or not, and says why (token %#)', async (token) => {
    const before = observer.count;
    const from = gateway.process.lines.length;
    const keys = [
      { namespace, name: 'a' },
      { namespace, name: 'never-was' },
    ];
    const reason = 'after the change of the network';
    const answer = await ask({ controller: CONTROLLER, keys, reason }, token);
    expect(answer).toEqual({ status: 202, body: { queued: 2, priority: 'high' } });
    await eventually(async () => expect(keysSince(before).toSorted()).toEqual(['a', 'never-was']));
    for (const { reasons } of observer.seen({ from: before, key: `${namespace}/a` })) {
      expect(reasons).toEqual([{ type: 'manual', message: reason }]);
    }
    const line = await eventually(async () => {
      const found = gateway.process.lines.slice(from).find(({ msg }) => msg === 'queued requested keys');
      if (!found) throw new Error('there is no line');
      return found;
    });
    expect(line).toMatchObject({ controller: CONTROLLER, keys: 2, priority: 'high', reason });
    expect(gateway.process.output).not.toContain(token);
  });

  it.each<[string, object, string[]]>([
    ['by label', { selection: { namespace: 'NS', labelSelector: { matchLabels: { team: 'blue' } } } }, ['a', 'b']],
    [
      'by expression',
      { selection: { labelSelector: { matchExpressions: [{ key: 'team', operator: 'In', values: ['red'] }] } } },
      ['c'],
    ],
    ['of a namespace', { selection: { namespace: 'NS' } }, ALL],
    ['at high priority', { selection: { namespace: 'NS' }, priority: 'high' }, ALL],
    ['of everything', { all: true }, ALL],
  ])('runs a selection %s', async (_what, which, expected) => {
    const before = observer.count;
    const body = JSON.stringify({ controller: CONTROLLER, ...which }).replaceAll('"NS"', JSON.stringify(namespace));
    const answer = await ask(body);
    const priority = 'priority' in which ? 'high' : 'low';
    expect(answer).toMatchObject({ status: 202, body: { priority } });
    await eventually(async () => expect(new Set(keysSince(before))).toEqual(new Set(expected)));
    await untilIdle(gateway.url);
    expect(keysSince(before).toSorted()).toEqual(expected.toSorted());
  });

  it.each<[number, string, unknown]>([
    [400, 'no JSON', '{'],
    [400, 'nothing to do', { controller: CONTROLLER }],
    [400, 'two things to do', { controller: CONTROLLER, all: true, keys: [{ namespace: 'a', name: 'b' }] }],
    [400, 'all of false', { controller: CONTROLLER, all: false }],
    // Passed over, it would be everything.
    [400, 'a misspelt selector', { controller: CONTROLLER, selection: { labelselector: { matchLabels: {} } } }],
    // It would be everything.
    [
      400,
      'a selector with a value that no label has',
      {
        controller: CONTROLLER,
        selection: { labelSelector: { matchExpressions: [{ key: 'team', operator: 'NotIn', values: ['no label'] }] } },
      },
    ],
    [400, 'a selector as text', { controller: CONTROLLER, selection: { labelSelector: 'team=blue' } }],
    [400, 'a name that is none', { controller: CONTROLLER, keys: [{ namespace: 'a', name: '..' }] }],
    [400, 'a name in two lines', { controller: CONTROLLER, keys: [{ namespace: 'a', name: 'b\nc' }] }],
    [400, 'a name with a NUL', { controller: CONTROLLER, keys: [{ namespace: 'a', name: 'b\u0000' }] }],
    [400, 'a name that was no UTF-8', { controller: CONTROLLER, keys: [{ namespace: 'a', name: 'b\ufffd' }] }],
    [400, 'a name that is a page', { controller: CONTROLLER, keys: [{ namespace: 'a', name: 'b'.repeat(5000) }] }],
    [400, 'a namespace that is none', { controller: CONTROLLER, keys: [{ namespace: '..', name: 'b' }] }],
    [400, 'a selection of no namespace', { controller: CONTROLLER, selection: { namespace: 'a/b' } }],
    [
      400,
      'a selector of which a key would be lost',
      `{"controller":"${CONTROLLER}","selection":{"labelSelector":{"matchLabels":{"__proto__":"x"}}}}`,
    ],
    [400, 'no keys', { controller: CONTROLLER, keys: [] }],
    [400, 'a key without its namespace', { controller: CONTROLLER, keys: [{ name: 'a' }] }],
    [400, 'a key with a slash', { controller: CONTROLLER, keys: [{ namespace: 'a', name: 'b/c' }] }],
    [
      400,
      'too many keys',
      { controller: CONTROLLER, keys: Array.from({ length: 1001 }, () => ({ namespace: 'a', name: 'b' })) },
    ],
    [400, 'a long reason', { controller: CONTROLLER, all: true, reason: 'x'.repeat(201) }],
    [400, 'another priority', { controller: CONTROLLER, all: true, priority: 'urgent' }],
    [404, 'another controller', { controller: 'another', all: true }],
    [413, 'too much', 'x'.repeat(600_000)],
  ])('answers %i to %s', async (status, _what, body) => {
    const before = observer.count;
    const answer = await ask(body);
    expect(answer).toEqual({ status, body: { error: expect.stringMatching(/\w/) } });
    expect(keysSince(before)).toEqual([]);
  });

  it('answers 401 to other tokens, and 403 where none is allowed', async ({ world: { setting, started } }) => {
    const body = { controller: CONTROLLER, all: true };
    expect(await ask(body, 'the-token-of-somebody-else')).toMatchObject({ status: 401 });
    expect(await ask(body, '')).toMatchObject({ status: 401 });
    expect((await fetch(`${gateway.url}/reconcile`, { method: 'POST', body: JSON.stringify(body) })).status).toBe(401);
    const closed = started.keep(await openGateway({ ...setting, keyPrefix: uniqueName('closed') }, [observer.url]));
    expect(await ask(body, TOKENS[0], closed.url)).toEqual({
      status: 403,
      body: { error: 'set LEVELHOOK_API_TOKENS to allow this' },
    });
  });

  it('puts off who asks too often', async () => {
    const body = JSON.stringify({ controller: CONTROLLER, keys: [{ namespace, name: 'a' }] });
    const headers = { authorization: `Bearer ${TOKENS[0]}` };
    const answers: Response[] = [];
    await eventually(async () => {
      const asking = Array.from({ length: 60 }, () =>
        fetch(`${gateway.url}/reconcile`, { method: 'POST', headers, body }),
      );
      answers.push(...(await Promise.all(asking)));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202, 429]));
    });
    expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('1');
    // It passes.
    expect(await ask(body)).toMatchObject({ status: 202 });
  });
});
