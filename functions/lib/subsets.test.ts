import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packSubsets, type ServedPort, servedPorts } from './subsets.ts';

const http = { name: 'http', port: 80, protocol: 'TCP' };
const https = { name: 'https', port: 443, protocol: 'TCP' };
const [a, b] = [{ ip: '10.0.0.1' }, { ip: '10.0.0.2' }];

describe('packed subsets', () => {
  it('have the addresses together that are served at the same ports', () => {
    const served: ServedPort[] = [
      { address: b, port: https, ready: true },
      { address: a, port: http, ready: true },
      { address: a, port: https, ready: true },
      { address: b, port: http, ready: true },
    ];
    expect(packSubsets(served)).toEqual([{ addresses: [a, b], ports: [http, https] }]);
  });

  it('are one for each set of addresses and their readiness', () => {
    const served: ServedPort[] = [
      { address: a, port: http, ready: true },
      { address: a, port: https, ready: false },
      { address: b, port: undefined, ready: true },
    ];
    expect(packSubsets(served)).toHaveLength(3);
    expect(packSubsets(served)).toContainEqual({ addresses: [a], ports: [http] });
    expect(packSubsets(served)).toContainEqual({ notReadyAddresses: [a], ports: [https] });
    expect(packSubsets(served)).toContainEqual({ addresses: [b] });
  });

  it('tell two pods of one address apart, and one pod that is ready and is not, is not', () => {
    const [one, two] = ['1', '2'].map((uid) => ({ ip: '10.0.0.1', targetRef: { kind: 'Pod', uid } }));
    if (!one || !two) throw new Error('unreachable');
    const served = [one, two, one].map((address, at) => ({ address, port: http, ready: at !== 2 }));
    expect(packSubsets(served)).toEqual([{ addresses: [two], notReadyAddresses: [one], ports: [http] }]);
  });

  it('are the same in whatever order, and packed again', () => {
    const address = fc.record({ ip: fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.3') });
    const port = fc.constantFrom(http, https, undefined);
    const all = fc.array(fc.record({ address, port, ready: fc.boolean() }), { maxLength: 8 });
    fc.assert(
      fc.property(
        all.chain((served) => fc.tuple(fc.constant(served), fc.shuffledSubarray(served, { minLength: served.length }))),
        ([served, shuffled]) => {
          const packed = packSubsets(served);
          expect(packSubsets(shuffled)).toEqual(packed);
          expect(packSubsets(servedPorts(packed))).toEqual(packed);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
