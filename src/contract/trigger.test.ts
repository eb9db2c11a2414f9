import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ContractError, decodeTrigger, type Trigger } from './trigger.ts';

const trigger: Trigger = {
  version: 'v1',
  controller: 'replicaset',
  deadline: '2026-01-01T00:00:00.000Z',
  remainingSeconds: 15,
  cache: { views: { 'v1/Pod': [{ prefix: '{levelhook:v1:c:v1/Pod:s}' }] } },
  requests: [{ namespace: 'a', name: 'b', attempt: 1, run: 7, reasons: [{ type: 'initial' }] }],
};

describe('decodeTrigger', () => {
  it('gives what was sent, with fields of later versions', () => {
    expect(decodeTrigger(JSON.stringify(trigger))).toEqual(trigger);
    expect(decodeTrigger(JSON.stringify({ ...trigger, later: 1 }))).toMatchObject({ later: 1 });
  });

  it.each<[string, unknown]>([
    ['no controller', { ...trigger, controller: undefined }],
    ['no deadline', { ...trigger, deadline: undefined }],
    ['no time left', { ...trigger, remainingSeconds: '15' }],
    ['no cache', { ...trigger, cache: undefined }],
    ['a cache that is null', { ...trigger, cache: null }],
    ['no views', { ...trigger, cache: {} }],
    ['views that are null', { ...trigger, cache: { views: null } }],
    ['no request', { ...trigger, requests: [] }],
    ['requests that are no array', { ...trigger, requests: trigger.requests[0] }],
    ['a request that is null', { ...trigger, requests: [null] }],
    ['a request without a name', { ...trigger, requests: [{ run: 1 }] }],
    ['a name that is none', { ...trigger, requests: [{ name: '..', run: 1 }] }],
    ['a name with a slash', { ...trigger, requests: [{ namespace: 'a', name: 'b/c', run: 1 }] }],
    ['a namespace that is none', { ...trigger, requests: [{ namespace: '../a', name: 'b', run: 1 }] }],
    ['an empty namespace', { ...trigger, requests: [{ namespace: '', name: 'b', run: 1 }] }],
    ['a request without a run', { ...trigger, requests: [...trigger.requests, { name: 'b' }] }],
  ])('refuses a trigger with %s', (_what, value) => {
    expect(() => decodeTrigger(JSON.stringify(value))).toThrow(ContractError);
  });

  it('says which version was spoken, and which is', () => {
    const speak = (version: unknown) => () => decodeTrigger(JSON.stringify({ ...trigger, version }));
    expect(speak('v2')).toThrow('the trigger speaks contract v2, this function v1');
    expect(speak(undefined)).toThrow('the trigger speaks contract undefined, this function v1');
    expect(speak({ toString: 1 })).toThrow(ContractError);
  });

  it('throws nothing but a ContractError, whatever the body is', () => {
    const mangled = fc
      .tuple(fc.constantFrom(...Object.keys(trigger)), fc.jsonValue())
      .map(([field, value]) => JSON.stringify({ ...trigger, [field]: value }));
    const hostile = fc
      .constantFrom('toString', 'valueOf', '__proto__', 'constructor')
      .map((name) => `{"version":{"${name}":1},"${name}":null}`);
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), mangled, hostile), (body) => {
        try {
          const decoded = decodeTrigger(body);
          // The fields that a function relies on exist.
          expect(Object.keys(decoded.cache.views)).toBeDefined();
          expect(decoded.requests.map(({ name }) => name.length)).toBeDefined();
        } catch (error) {
          expect(error).toBeInstanceOf(ContractError);
        }
      }),
    );
  });
});
