import * as fc from 'fast-check';
import { PLACES } from '../actions.ts';

export type Kind = readonly [apiVersion: string, kind: string];

/**
 * Objects have few names, so that they are changed and removed again, and those that an object of JavaScript has by
 * itself.
 */
export const OBJECT_NAMES = [
  'one',
  'two',
  'three',
  'four',
  'constructor',
  'tostring',
  'a.b',
  '0',
  'nan',
  'true',
  `${'x.'.repeat(126)}x`,
];

/** The apiserver limits no name of a role. */
export const ROLE_NAMES = ['one', 'two', 'a.b', 'constructor', 'n'.repeat(1000), 'n'.repeat(2000), 'n'.repeat(100_000)];

/** Those of ReconcileFunctions: at most this many run at a time. */
export const FUNCTION_NAMES = ['alpha', 'beta', 'gamma', 'delta', 'constructor', 'proto', '0', 'x'.repeat(63)];

export const INHERITED = [
  'constructor',
  '__proto__',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  '__defineGetter__',
  'length',
];
const TRAVERSING = [
  '..',
  '.',
  '../x',
  'a/b',
  'a/../../b',
  '../../../api/v1/secrets',
  '%2e%2e',
  '..%2f..',
  './/',
  '/',
  'a?watch=1',
  'a#b',
];
const BROKEN_LINES = ['a\nb', 'a\r\nHost: b', '\n', 'a\u0000b', 'a\nnamespace:default\nT', 'a\u2028b'];
const NUMBERS = ['NaN', 'Infinity', '-0', '1e999', '0x10', '9'.repeat(30), '-1', '00'];
export const LONG = 'x'.repeat(300);

/** Names that lead elsewhere, or are none. */
export function nastyName(): fc.Arbitrary<string> {
  const { namespace, victimNamespace } = PLACES;
  return fc.oneof(
    fc.constantFrom(...TRAVERSING),
    fc.constantFrom(...INHERITED),
    fc.constantFrom(...BROKEN_LINES),
    fc.constantFrom(...NUMBERS),
    fc.constantFrom(victimNamespace, `${victimNamespace}/plans`, `../${victimNamespace}/plans`, `${namespace}/one/two`),
    fc.constantFrom('', ' ', LONG, `${LONG}/${LONG}`, 'ä', '{}', '*'),
  );
}

/** Mostly one of its own objects'. */
export function objectName(): fc.Arbitrary<string> {
  return fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...OBJECT_NAMES) }, { weight: 1, arbitrary: nastyName() });
}

/** Kinds that the tenant has, which it may read in its own namespace. */
export function ownKind(): fc.Arbitrary<Kind> {
  const { group } = PLACES;
  return fc.constantFrom<Kind>(
    ['v1', 'ConfigMap'],
    ['v1', 'ConfigMap'],
    ['v1', 'Pod'],
    ['v1', 'Secret'],
    ['v1', 'Event'],
    ['v1', 'ServiceAccount'],
    ['rbac.authorization.k8s.io/v1', 'Role'],
    [`${group}/v1`, 'Thing'],
    [`${group}/v1`, 'Thing'],
    [`${group}/v1`, 'Thing'],
  );
}

/** Kinds that it may not read, or that there are none of. */
export function otherKind(): fc.Arbitrary<Kind> {
  const { group } = PLACES;
  return fc.constantFrom<Kind>(
    ['v1', 'Node'],
    ['v1', 'Namespace'],
    ['apps/v1', 'Deployment'],
    ['levelhook.dev/v1alpha1', 'ReconcileFunction'],
    ['authorization.k8s.io/v1', 'SubjectAccessReview'],
    [`${group}/v1`, 'Nothing'],
    [`${group}/v9`, 'Thing'],
    ['nothing.example.com/v1', 'Thing'],
  );
}

/** Names of kinds that lead elsewhere. */
export function nastyKind(): fc.Arbitrary<Kind> {
  const { group, victimNamespace } = PLACES;
  const climbing = ['ConfigMap', 'Secret', 'Pod'].flatMap((kind): Kind[] => [
    [`${group}/../../api/v1`, kind],
    [`${group}/.././../../api/v1`, kind],
    [`${group}/../../api/v1/namespaces/${victimNamespace}`, kind],
    ['./v1', kind],
    ['../api/v1', kind],
    ['v1/../v1', kind],
  ]);
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...climbing) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Kind>(
        ['apps/./v1', 'Deployment'],
        ['apps/././v1', 'Deployment'],
        ['apps%2fv1', 'Deployment'],
        ['v1?watch=1', 'Pod'],
        ['v1#', 'Pod'],
      ),
    },
    { weight: 1, arbitrary: fc.tuple(nastyName(), fc.constant('ConfigMap')) },
    {
      weight: 1,
      arbitrary: fc.tuple(fc.constantFrom('v1', `${group}/v1`), nastyName()),
    },
  );
}
