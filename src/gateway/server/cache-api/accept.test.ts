import { expect, it } from 'vitest';
import { negotiate } from './accept.ts';

it.each([
  [null, 'object'],
  ['', 'object'],
  ['*/*', 'object'],
  ['application/json', 'object'],
  ['application/vnd.kubernetes.protobuf,application/json', 'object'],
  ['application/json;as=Table;v=v1;g=meta.k8s.io,application/json', 'table'],
  ['application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json', 'object'],
  ['application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io', 'metadata'],
  ['text/html,application/xhtml+xml,*/*;q=0.8', 'object'],
])('%j is answered with %s', (accept, form) => {
  expect(negotiate(accept)).toBe(form);
});

it.each([
  'application/vnd.kubernetes.protobuf',
  'text/html',
  'application/yaml',
  'application/json;as=Nope;g=meta.k8s.io;v=v1',
  'application/json;stream=watch',
])('%s is refused', (accept) => {
  expect(() => negotiate(accept)).toThrow('only the following media types are accepted: application/json');
});
