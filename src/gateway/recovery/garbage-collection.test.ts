import { expect, it } from 'vitest';
import { isGarbage } from './garbage-collection.ts';

it.each<[string, boolean, string, readonly string[], readonly string[] | undefined]>([
  ['a function that is still configured', false, 'web', ['web'], []],
  ['one that is configured no more', true, 'old', ['web'], []],
  ['one of a gateway without any, which is more likely a mistake', false, 'old', [], []],
  ['one of a gateway that runs nothing but ReconcileFunctions', false, 'old', ['ns.web'], ['ns.web']],
  ['a ReconcileFunction that is there and does not run', false, 'ns.web', ['web'], ['ns.web']],
  ['one that is there no more', true, 'ns.old', [], ['ns.web']],
  ['the last one', true, 'ns.old', [], []],
  ['one of which the cluster did not tell', false, 'ns.old', ['web'], undefined],
  ['one whose name is that of a configured function', true, 'ns.web', ['web'], ['other.web']],
])('%s is left over: %s', (_what, expected, id, configured, declared) => {
  expect(isGarbage(id, { configured: new Set(configured), declared })).toBe(expected);
});
