import type { webcrypto } from 'node:crypto';
import type { X509Certificate } from '@peculiar/x509';
import { loadX509 } from '../../src/gateway/certificates/x509-library.ts';

/** The certificates of a server at 127.0.0.1, in PEM form. */
export interface CertificateChain {
  /** The authority at its root. */
  readonly ca: string;
  /** All others, the server's own first. */
  readonly cert: string;
  readonly key: string;
}

const HOUR_MS = 3_600_000;

/**
 * Makes a chain of this many certificates below its authority.
 * @param namedCurve of all keys. With P-521 it takes a client more than a millisecond to verify a certificate.
 */
export async function createCertificateChain(length: number, namedCurve = 'P-256'): Promise<CertificateChain> {
  const x509 = await loadX509();
  const algorithm = { name: 'ECDSA', namedCurve, hash: 'SHA-256' };
  const createKeys = () => crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const now = Date.now();
  const common = {
    signingAlgorithm: algorithm,
    notBefore: new Date(now - HOUR_MS),
    notAfter: new Date(now + 24 * HOUR_MS),
  };
  const signs = new x509.BasicConstraintsExtension(true, undefined, true);
  const forServer = new x509.SubjectAlternativeNameExtension([{ type: 'ip', value: '127.0.0.1' }]);
  let keys: webcrypto.CryptoKeyPair = await createKeys();
  let issuer: X509Certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...common,
    name: 'CN=0',
    keys,
    extensions: [signs],
  });
  const ca = issuer.toString('pem');
  const certificates: string[] = [];
  for (let at = 1; at <= length; at += 1) {
    const own = await createKeys();
    issuer = await x509.X509CertificateGenerator.create({
      ...common,
      subject: `CN=${at}`,
      issuer: issuer.subject,
      publicKey: own.publicKey,
      signingKey: keys.privateKey,
      extensions: [at === length ? forServer : signs],
    });
    keys = own;
    certificates.unshift(issuer.toString('pem'));
  }
  const key = x509.PemConverter.encode(
    await crypto.subtle.exportKey('pkcs8', keys.privateKey),
    x509.PemConverter.PrivateKeyTag,
  );
  return { ca, cert: certificates.join('\n'), key };
}
