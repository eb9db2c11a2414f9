import { expect, test } from 'vitest';
import { yamlOf } from './object.ts';

const object = (data: string): Parameters<typeof yamlOf>[0] =>
  ({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' }, data: { text: data } }) as never;

test('fields come in alphabetical order, whatever order the server has sent', () => {
  expect(yamlOf(object('x'))).toBe('apiVersion: v1\ndata:\n  text: x\nkind: ConfigMap\nmetadata:\n  name: a\n');
});

test('a large object is cut', () => {
  const text = yamlOf(object('x'.repeat(3_000_000)));
  expect(text.length).toBeLessThan(201_000);
  expect(text).toContain('The first 200,000 of 3000');
});
