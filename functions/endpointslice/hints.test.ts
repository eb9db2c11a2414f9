import { describe, expect, it } from 'vitest';
import { endpoint } from '../lib/testing-services.ts';
import { withHints } from './hints.ts';

const zoned = endpoint('p1', { zone: 'z1', nodeName: 'n1' });
const forZones = [{ name: 'z1' }];
const forNodes = [{ name: 'n1' }];

describe('the hints of an endpoint', () => {
  it.each(['PreferClose', 'PreferSameZone'])('are its zone for %s', (distribution) => {
    expect(withHints(zoned, distribution).hints).toEqual({ forZones });
  });

  it('are its zone and its node for PreferSameNode', () => {
    expect(withHints(zoned, 'PreferSameNode').hints).toEqual({ forZones, forNodes });
    const { zone: _, ...unzoned } = zoned;
    expect(withHints(unzoned, 'PreferSameNode').hints).toEqual({ forNodes });
  });

  it.each([undefined, 'SomethingElse'])('go when the Service asks for %s', (distribution) => {
    expect(withHints({ ...zoned, hints: { forZones } }, distribution)).toEqual(zoned);
    expect(withHints(zoned, distribution)).toBe(zoned);
  });

  it('are corrected', () => {
    expect(withHints({ ...zoned, hints: { forZones: [{ name: 'z2' }] } }, 'PreferClose').hints).toEqual({ forZones });
    expect(withHints({ ...zoned, hints: { forZones, forNodes } }, 'PreferClose').hints).toEqual({ forZones });
    const { zone: _, ...unzoned } = zoned;
    expect(withHints({ ...unzoned, hints: { forZones } }, 'PreferClose')).toEqual(unzoned);
  });

  it('leave an endpoint alone that has the right ones, or is not ready', () => {
    const right = { ...zoned, hints: { forZones } };
    expect(withHints(right, 'PreferClose')).toBe(right);
    const notReady = { ...zoned, conditions: { ready: false }, hints: { forZones: [{ name: 'z2' }] } };
    expect(withHints(notReady, 'PreferClose')).toBe(notReady);
  });
});
