import { expect, it } from 'vitest';
import { replacedControllers } from './replaced-controllers.ts';

it('the replaced controllers are those whose work the functions do, each once', () => {
  expect(replacedControllers(['deployment', 'replicaset', 'deployment'])).toEqual([
    'deployment-controller',
    'replicaset-controller',
  ]);
});

it('the replaced controllers are several for a function that does the work of several', () => {
  expect(replacedControllers(['node-lifecycle'])).toEqual(['node-lifecycle-controller', 'taint-eviction-controller']);
});

it('the replaced controllers are none for a function that Kubernetes does not have', () => {
  expect(replacedControllers(['examples/01-minimal', 'toString'])).toEqual([]);
});
