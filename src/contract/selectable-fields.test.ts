import { expect, it } from 'vitest';
import type { KubernetesObject } from '../core/index.ts';
import { selectableValue } from './selectable-fields.ts';

it.each<[unknown, string]>([
  [9007199254740993n, '9007199254740993'],
  [5, '5'],
  [false, 'false'],
  ['text', 'text'],
  [undefined, ''],
  [{ deep: 1 }, ''],
])('the selectable field of a custom resource is compared as the apiserver prints it: %s, %s', (size, text) => {
  const metadata = { name: 'x', uid: 'u', resourceVersion: '1' };
  const object = { apiVersion: 'example.com/v1', kind: 'Thing', metadata, spec: { size } } as KubernetesObject;
  expect(selectableValue(object, 'spec.size')).toBe(text);
});
