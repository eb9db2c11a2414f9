import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { expiryOf, isDue, isFor, isIssuedBy } from './authority.ts';
import { afterStep, newCertificates, nextStep, type RotationFacts, stateOf, type Step } from './rotation.ts';
import { bundleOf, decodeCertificates, encodeCertificates, type StoredCertificates } from './stored-certificates.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2026, 0, 1);
const names = ['levelhook.tools.svc', 'levelhook.tools.svc.cluster.local', '10.0.0.1', '::1'];
const times = { authorityMs: 365 * DAY_MS, certificateMs: 90 * DAY_MS, settleMs: 150_000, retireMs: 300_000 };

const made = (): Promise<StoredCertificates> => newCertificates({ names, nowMs: START_MS, times });
const after = (
  step: Exclude<Step, 'none'>,
  stored: StoredCertificates,
  nowMs = START_MS,
): Promise<StoredCertificates> => afterStep(step, stored, { names, nowMs, times });
const next = (stored: StoredCertificates, facts: Partial<RotationFacts> = {}): Step => {
  const quiet = { nowMs: START_MS, requested: false, bundledForMs: undefined, inStateForMs: 0, names };
  return nextStep(stored, { ...quiet, ...facts }, times);
};

describe('the certificates', () => {
  it('are an authority and a certificate of it, for the names of the server alone, that TLS can use', async () => {
    const { authorities, serving } = await made();
    const authority = new X509Certificate(authorities[0]);
    const certificate = new X509Certificate(serving.cert);
    expect(authority.ca).toBe(true);
    expect(certificate.ca).toBe(false);
    expect(isIssuedBy(serving.cert, authorities[0])).toBe(true);
    expect(isIssuedBy(serving.cert, (await made()).authorities[0])).toBe(false);
    expect(certificate.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' });
    expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
    expect(isFor(serving.cert, names)).toBe(true);
    expect(isFor(serving.cert, ['levelhook.other.svc'])).toBe(false);
    expect(isFor(serving.cert, ['10.0.0.2'])).toBe(false);
    expect(() => createSecureContext(serving)).not.toThrow();
    expect(authority.serialNumber).not.toBe(new X509Certificate((await made()).authorities[0]).serialNumber);
  });

  it('are due when two thirds of their life are over, and do not outlive their authority', async () => {
    const stored = await made();
    expect(isDue(stored.serving.cert, START_MS + 60 * DAY_MS - 1)).toBe(false);
    expect(isDue(stored.serving.cert, START_MS + 60 * DAY_MS)).toBe(true);
    expect(expiryOf(stored.authorities[0])).toBe(START_MS + times.authorityMs);
    const late = await after('renew', stored, START_MS + 300 * DAY_MS);
    expect(expiryOf(late.serving.cert)).toBe(expiryOf(stored.authorities[0]));
  });

  it('are in the Secret as its type has them, and anything else there is none', async () => {
    const stored = await after('announce', await made());
    const data = encodeCertificates(stored);
    expect(Object.keys(data)).toEqual(['ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
    expect(decodeCertificates(data)).toEqual(stored);
    const other = encodeCertificates(await made());
    for (const wrong of [
      {},
      { ...data, 'ca.crt': '' },
      { ...data, 'tls.crt': 'none' },
      { ...data, 'tls.key': other['tls.key'] ?? '' },
      { ...data, 'ca.key': other['ca.key'] ?? '' },
      { ...data, 'ca.crt': other['ca.crt'] ?? '', 'ca.key': other['ca.key'] ?? '' },
    ]) {
      expect(decodeCertificates(wrong)).toBeUndefined();
    }
  });
});

describe('a rotation', () => {
  it('goes through its states, each when it is safe', async () => {
    const settled = await made();
    expect([stateOf(settled), next(settled)]).toEqual(['settled', 'none']);
    expect(next(settled, { requested: true })).toBe('announce');

    const announced = await after('announce', settled);
    expect(stateOf(announced)).toBe('announced');
    expect(announced.serving).toEqual(settled.serving);
    expect(bundleOf(announced).startsWith(bundleOf(settled))).toBe(true);
    expect(next(announced)).toBe('none');
    expect(next(announced, { bundledForMs: times.settleMs - 1, inStateForMs: DAY_MS })).toBe('none');
    expect(next(announced, { bundledForMs: times.settleMs })).toBe('serve');

    const served = await after('serve', announced);
    expect(stateOf(served)).toBe('served');
    expect(bundleOf(served)).toBe(bundleOf(announced));
    expect(next(served, { inStateForMs: times.retireMs - 1, bundledForMs: DAY_MS })).toBe('none');
    expect(next(served, { inStateForMs: times.retireMs })).toBe('retire');

    const retired = await after('retire', served);
    expect(stateOf(retired)).toBe('settled');
    expect(retired.serving).toEqual(served.serving);
    expect(bundleOf(served)).toBe(bundleOf(settled) + bundleOf(retired));
  });

  it('begins when the authority is due, and a certificate is renewed without one', async () => {
    const settled = await made();
    expect(next(settled, { nowMs: START_MS + 61 * DAY_MS })).toBe('renew');
    expect(next(settled, { names: [...names, 'other.example.com'] })).toBe('renew');
    const renewed = await after('renew', settled, START_MS + 200 * DAY_MS);
    expect(bundleOf(renewed)).toBe(bundleOf(settled));
    expect(renewed.serving).not.toEqual(settled.serving);
    expect(next(renewed, { nowMs: START_MS + 243 * DAY_MS })).toBe('none');
    expect(next(renewed, { nowMs: START_MS + 244 * DAY_MS })).toBe('announce');
  });

  it('waits for nothing when nothing valid is served', async () => {
    const settled = await made();
    expect(next(settled, { nowMs: START_MS + 91 * DAY_MS })).toBe('renew');
    expect(next(settled, { nowMs: START_MS + 366 * DAY_MS })).toBe('replace');
    expect(next(await after('announce', settled), { nowMs: START_MS + 91 * DAY_MS })).toBe('serve');
    const replaced = await after('replace', settled, START_MS + 366 * DAY_MS);
    expect(next(replaced, { nowMs: START_MS + 366 * DAY_MS })).toBe('none');
  });
});
