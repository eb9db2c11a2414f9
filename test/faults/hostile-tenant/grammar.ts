import * as fc from 'fast-check';
import { type Action, PLACES } from './actions.ts';
import { BEHAVIOURS, type BehaviourName } from './hostile-function.ts';
import { mostly } from './grammar/combinators.ts';
import { declaring, declaringMany, turning } from './grammar/declarations.ts';
import { callingBack, reviewing } from './grammar/made-up.ts';
import { nastyKind, nastyName, objectName } from './grammar/names.ts';
import { putting, removing } from './grammar/objects.ts';
import { proxying } from './grammar/proxied.ts';

/**
 * One thing that the tenant does: of all that a tenant may try, as arbitraries of fast-check. Most of what they make is
 * accepted by the apiserver, since what it refuses harms no gateway.
 */
export function action(): fc.Arbitrary<Action> {
  return fc.oneof(
    // Each of the others is fifty.
    { weight: 6, arbitrary: mostly(declaring(), declaringMany()) },
    { weight: 12, arbitrary: putting() },
    { weight: 2, arbitrary: removing() },
    { weight: 2, arbitrary: behaving() },
    { weight: 2, arbitrary: turning() },
    { weight: 2, arbitrary: callingBack() },
    { weight: 2, arbitrary: reviewing() },
    { weight: 3, arbitrary: proxying() },
    {
      weight: 2,
      arbitrary: cachePath().map((path): Action => ({ do: 'ask', path })),
    },
  );
}

function behaving(): fc.Arbitrary<Action> {
  const names = Object.keys(BEHAVIOURS) as BehaviourName[];
  return fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 5 }).map((as) => ({ do: 'behave', as }));
}

/** A path of the cache API that the tenant has no business with. */
function cachePath(): fc.Arbitrary<string> {
  const { namespace, victimNamespace } = PLACES;
  const version = fc.oneof(
    fc.constantFrom('/api/v1', '/apis/apps/v1', `/apis/${PLACES.group}/v1`),
    nastyKind().map(([apiVersion]) => `/apis/${apiVersion}`),
  );
  const where = fc.constantFrom(
    '',
    `/namespaces/${namespace}`,
    `/namespaces/${victimNamespace}`,
    `/namespaces/${namespace}%2f..%2f${victimNamespace}`,
    '/namespaces/..',
    '/namespaces/constructor',
  );
  const what = fc.oneof(
    fc.constantFrom('configmaps', 'pods', 'secrets', 'things', 'constructor', '__proto__', '*', 'pods/status'),
    nastyName().map(encodeURIComponent),
  );
  const query = fc.oneof(
    fc.constantFrom(
      '',
      '?watch=1',
      '?limit=-1',
      '?limit=NaN',
      '?continue=e30',
      '?continue=..',
      '?labelSelector=%5B',
      '?fieldSelector=metadata.namespace%3D..',
      '?resourceVersion=1e999',
      '?pretty=true',
    ),
    nastyName().map((name) => `?fieldSelector=metadata.name%3D${encodeURIComponent(name)}`),
  );
  return fc
    .record({
      version,
      where,
      what,
      name: fc.option(objectName().map(encodeURIComponent), { nil: undefined }),
      query,
    })
    .map(
      ({ name, ...rest }) =>
        `${rest.version}${rest.where}/${rest.what}${name === undefined ? '' : `/${name}`}${rest.query}`,
    );
}
