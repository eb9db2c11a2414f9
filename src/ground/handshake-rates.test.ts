import { beforeEach, describe, expect, it } from 'vitest';
import {
  HANDSHAKES,
  HANDSHAKES_IN_ALL,
  HandshakeRates,
  KNOWN_HANDSHAKES,
  RESERVED_HANDSHAKES,
} from './handshake-rates.ts';

const { perSecond, burst } = HANDSHAKES;

describe('the handshakes of a source', () => {
  let nowMs: number;
  let rates: HandshakeRates;

  beforeEach(() => {
    nowMs = 0;
    rates = new HandshakeRates({ now: () => nowMs });
  });

  /** Tries far more often than is allowed. @returns how often it was allowed. */
  function tryOften(name: string): number {
    return Array.from({ length: KNOWN_HANDSHAKES.burst * 2 }, () => rates.take(name)).filter(Boolean).length;
  }

  it('are bounded by a rate and a burst', () => {
    expect(tryOften('a')).toBe(burst);
    nowMs += 1000;
    expect(tryOften('a')).toBe(perSecond);
    nowMs += 3_600_000;
    expect(tryOften('a')).toBe(burst);
  });

  it('take none from another source', () => {
    tryOften('a');
    expect(tryOften('b')).toBe(burst);
  });

  it('are bounded together with those of all other sources, and each source has a few of its own', () => {
    // In turn: each of them stays far below its own bound.
    const tryInTurn = (): number =>
      Array.from({ length: 100 * 100 }, (_, at) => rates.take(`stranger ${at % 100}`)).filter(Boolean).length;
    expect(tryInTurn()).toBe(HANDSHAKES_IN_ALL.burst + 100 * RESERVED_HANDSHAKES.burst);
    nowMs += 1000;
    expect(tryInTurn()).toBe(HANDSHAKES_IN_ALL.perSecond + 100 * RESERVED_HANDSHAKES.perSecond);
    expect(tryOften('apiserver')).toBe(RESERVED_HANDSHAKES.burst);
    rates.know('apiserver');
    expect(tryOften('apiserver')).toBe(KNOWN_HANDSHAKES.burst);
  });

  it('have a larger bound of their own once it has shown its certificate, until the authorities change', () => {
    tryOften('apiserver');
    tryOften('stranger');
    rates.know('apiserver');
    expect(tryOften('apiserver')).toBe(KNOWN_HANDSHAKES.burst);
    // Each of its handshakes shows the certificate again.
    rates.know('apiserver');
    expect(tryOften('apiserver')).toBe(0);
    expect(tryOften('stranger')).toBe(0);
    nowMs += 1000;
    expect(tryOften('apiserver')).toBe(KNOWN_HANDSHAKES.perSecond);
    rates.forgetKnown();
    nowMs += 10_000;
    expect(tryOften('apiserver')).toBe(burst);
  });

  it('are counted while 4000 other sources connect, and forgotten after 5000', () => {
    tryOften('a');
    for (let at = 0; at < 4000; at += 1) rates.take(`other ${at}`);
    expect(rates.take('a')).toBe(false);
    for (let at = 0; at < 5000; at += 1) rates.take(`other ${at}`);
    expect(tryOften('a')).toBe(RESERVED_HANDSHAKES.burst);
  });
});
