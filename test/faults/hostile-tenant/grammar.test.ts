import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Action, PLACES, placed, WRITTEN } from './actions.ts';
import { textOf } from './bulk.ts';
import { action } from './grammar.ts';
import { COPIED, copying, rounds } from './grammar/copies.ts';

const ACTIONS = 2000;
const actions = fc.sample(action(), { seed: 13, numRuns: ACTIONS });

type Place = 'object' | 'declaration' | 'path' | 'proxied';
/** Looks at the text that is sent, or at the action as it is recorded. */
type Pattern = RegExp | ((text: string, action: string) => boolean);

const NASTY: readonly [what: string, where: Place, pattern: Pattern][] = [
  ['names that climb', 'object', /"\.\.(\/|")|\.\.\//],
  ['owner references whose name holds a slash', 'object', /"name":"[^"]*\/[^"]*","uid"/],
  ['owner references with a line break in their UID', 'object', /"uid":"[^"]*\\n/],
  ['inherited names', 'object', /"constructor"|"__proto__"|"toString"/],
  ['line breaks', 'object', /\\n/],
  ['names of 300 characters', 'object', /x{300}/],
  ['names of 100,000 characters', 'object', (_, action) => action.includes('n'.repeat(100_000))],
  ['names in rules', 'object', /"resourceNames":\["/],
  ['other namespaces', 'object', new RegExp(`"${PLACES.victimNamespace}/plans"`)],
  ['numbers that are none', 'object', /"NaN"|"1e999"|1e400|1E-999/],
  ['numbers of 30 digits', 'object', /9{30}/],
  ['selectors with a number for a list', 'object', /"matchExpressions":5/],
  [
    'selectors of 2,000 expressions',
    'object',
    (text) => text.includes('"matchExpressions":[') && text.split('"operator"').length > 2000,
  ],
  ['lists of 3,000 elements', 'object', (text) => text.split('","').length >= 3000],
  [
    'objects in objects, 5,000 levels deep',
    'object',
    (_, action) => action.includes('"nested":"object","levels":5000'),
  ],
  ['lists in lists, 9,000 levels deep', 'object', (_, action) => action.includes('"nested":"list","levels":9000')],
  ['120,000 values of an index', 'object', (_, action) => action.includes('"times":120000')],
  ['lists that are small in text and large in memory', 'object', /\[\],\[\],\[\]/],
  ['texts that are slow to search in each other', 'object', (text) => text.includes('a'.repeat(400_000))],
  ['searches in long texts', 'declaration', /data\.a\.contains\(object\.data\.b\)/],
  ['addresses of other machines', 'object', /"addressType".*100\.100\.100\.200/],
  ['more than a megabyte', 'object', (text) => text.length > 1_000_000],
  [
    'expensive expressions',
    'declaration',
    (text) => ['.all(a, ', '.all(b, ', '.all(c, '].every((loop) => text.includes(loop)),
  ],
  ['sixteen expressions at once', 'declaration', (text) => text.split('"by":"cel"').length > 16],
  ['kinds that climb out of their group', 'declaration', /example\.com\/\.\.\/\.\.\/api\/v1"/],
  ['kinds that there are none of', 'declaration', /"Nothing"|"nothing\.example\.com|\/v9"/],
  ['kinds without rights', 'declaration', /"SubjectAccessReview"|"Node"/],
  ['namespaces of others', 'declaration', new RegExp(`"namespaces":\\[[^\\]]*"${PLACES.victimNamespace}"`)],
  ['endpoints elsewhere', 'declaration', /169\.254\.169\.254|file:|\.svc/],
  ['a long chain of certificates', 'declaration', new RegExp(`"caBundle":"${PLACES.secureCa}"`)],
  ['services', 'declaration', /"service":\{/],
  ['signing secrets of others', 'declaration', /"signingSecret":\{"name":"(?!signing")/],
  ['another account alone', 'declaration', /^\{"spec":\{"serviceAccountName":"second"\}\}$/],
  ['a webhook', 'declaration', /"type":"validating"/],
  [
    'a label selector of 1,000 values',
    'declaration',
    /"labelSelector":\{"matchExpressions":\[\{"key":"app","operator":"NotIn","values":\["v{20}/,
  ],
  ['a map by index', 'declaration', /"by":"index"/],
  ['a map by selector', 'declaration', /"by":"selector"/],
  ['a map by owner', 'declaration', /"by":"owner"/],
  ['a map by an inherited label', 'declaration', /"by":"label","label":"constructor"/],
  ['a map by an inherited annotation', 'declaration', /"by":"annotation","annotation":"__proto__"/],
  ['a map by the field of a Secret', 'declaration', /"by":"field","path":"data\.password"/],
  ['a map to all', 'declaration', /"by":"all"/],
  ['a map by what a run names', 'declaration', /"by":"related"/],
  ['a map by expression', 'declaration', /"by":"cel"/],
  ['indexes of inherited names', 'declaration', /"index":"(label|annotation):(constructor|__proto__)"/],
  ['paths of the cache API that climb', 'path', /\.\./],
  ['credentials from the gateway', 'declaration', /"credentials":"proxy"/],
  ['other credentials alone', 'declaration', /^\{"spec":\{"credentials":"own"\}\}$/],
  ['proxied writes to others', 'proxied', new RegExp(`^(POST|PUT|PATCH) .*namespaces/${PLACES.victimNamespace}/`)],
  ['proxied names that climb', 'proxied', /\.\./],
  ['proxied bodies that two readers read in two ways', 'proxied', /"dryRun":\["All"\],"dryRun"/],
  ['proxied bodies of megabytes', 'proxied', (text) => text.length > 3_000_000],
  ['proxied runs that are none', 'proxied', (_, action) => action.includes('"run":"1e309"')],
];

/** How many actions hold each of them. Written out, all actions together would be gigabytes. */
const found = new Map<string, number>();
for (const action of actions) {
  const [where, text] = textsOf(action);
  const recorded = JSON.stringify(action);
  for (const [what, place, pattern] of NASTY) {
    // What a pattern is about stands near the beginning or many times.
    if (place !== where || !(pattern instanceof RegExp ? pattern.test(text.slice(0, 50_000)) : pattern(text, recorded)))
      continue;
    found.set(what, (found.get(what) ?? 0) + 1);
  }
}

function textsOf(action: Action): [where: Place | undefined, text: string] {
  if (action.do === 'ask') return ['path', action.path];
  if (action.do === 'proxy') {
    const { body, method, path } = action;
    return ['proxied', `${method} ${path} ${body === undefined ? '' : textOf(body)}`];
  }
  if (action.do !== 'put') return [undefined, ''];
  return [action.what === 'reconcilefunctions' ? 'declaration' : 'object', textOf(action.object)];
}

describe('the grammar of a hostile tenant', () => {
  it.each(NASTY.map(([what]) => what))('makes %s', (what) => {
    // Several in a minute of CI, in which some hundred actions are done.
    expect(found.get(what) ?? 0).toBeGreaterThanOrEqual(ACTIONS / 1000);
  });

  it('does each thing often enough', () => {
    const counts = new Map<string, number>();
    for (const action of actions) {
      const what = action.do === 'put' ? action.what : action.do;
      counts.set(what, (counts.get(what) ?? 0) + 1);
    }
    for (const what of [...WRITTEN, 'remove', 'behave', 'ask', 'call back', 'review', 'proxy']) {
      expect(counts.get(what), what).toBeGreaterThan(ACTIONS / 100);
    }
    // Each is fifty, or takes all away.
    for (const what of ['declare many', 'remove all']) {
      expect(counts.get(what), what).toBeGreaterThan(ACTIONS / 500);
    }
  });

  it('makes the same list of a seed, for any world', () => {
    const again = fc.sample(action(), { seed: 13, numRuns: 200 });
    expect(again).toEqual(actions.slice(0, 200));
    const places = {
      namespace: 'one',
      victimNamespace: 'two',
      victimUid: '00000000-0000-4000-8000-000000000002',
      group: 'one.example.com',
      functionUrl: 'http://127.0.0.1:1',
      secureUrl: 'https://127.0.0.1:3',
      secureCa: 'b25l',
      gatewayUrl: 'http://127.0.0.1:2',
    };
    const text = JSON.stringify(actions.map((action) => placed(action, places)));
    for (const place of Object.values(PLACES)) expect(text).not.toContain(place);
    // What a recording holds is short, whatever it stands for.
    expect(JSON.stringify(actions).length / ACTIONS).toBeLessThan(5000);
  });

  it('copies each kind of a victim in each way, and changes the copies', () => {
    const copies = fc.sample(copying(), { seed: 13, numRuns: ACTIONS });
    const of = copies.map((each) => (each.do === 'copy' ? `${each.kind} ${each.owner}` : each.how));
    const owners = ['of the object', 'the object', 'any of the object, not controlling', 'none'];
    for (const what of [...COPIED.flatMap((kind) => owners.map((owner) => `${kind} ${owner}`)), 'scale', 'Recreate']) {
      expect(of.filter((each) => each === what).length, what).toBeGreaterThan(ACTIONS / 200);
    }
  });

  it('has the victim rest, scale, change its image and recreate in each draw', () => {
    for (const drawn of fc.sample(rounds(3), { seed: 13, numRuns: 20 })) {
      const changes = drawn.map(({ victim }) => (victim === 'rests' ? victim : victim.how));
      expect(changes.toSorted()).toEqual(['Recreate', 'image', 'rests', 'scale']);
    }
  });
});
