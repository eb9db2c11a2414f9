import { expect, it } from 'vitest';
import { negotiate, wantsAggregated } from './accept.ts';

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

const V2 = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
const V2_BETA = V2.replace('v=v2', 'v=v2beta1');
it.each([
  [`${V2},${V2_BETA},application/json`, true],
  ['application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io; profile=nopeer', true],
  [`${V2_BETA},application/json`, false],
  [`application/json,${V2}`, false],
  ['application/json', false],
  ['*/*', false],
  [null, false],
])('%j wants aggregated discovery: %j', (accept, wanted) => {
  expect(wantsAggregated(accept)).toBe(wanted);
});
