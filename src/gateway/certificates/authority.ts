import { randomBytes, type webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { CertificatePair } from '../../contract/node/certificate-files.ts';
import { loadX509 } from './x509-library.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** How far back the validity of certificates begins, because clocks differ. */
const BACKDATED_MS = 3_600_000;

/** A new certificate authority. Each has a name of its own, so that two of a bundle are never mistaken. */
export async function createAuthority({
  nowMs,
  lifetimeMs,
}: {
  nowMs: number;
  lifetimeMs: number;
}): Promise<CertificatePair> {
  const x509 = await loadX509();
  const keys = await createKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=levelhook-webhooks-${randomBytes(4).toString('hex')}`,
    keys,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(nowMs - BACKDATED_MS),
    notAfter: new Date(nowMs + lifetimeMs),
    extensions: [
      // It signs no other authority.
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { cert: withEnd(certificate.toString('pem')), key: await pemOf(keys.privateKey) };
}

/** A certificate for a server with these DNS names and addresses. It does not outlive its authority. */
export async function issueCertificate(
  authority: CertificatePair,
  {
    names,
    nowMs,
    lifetimeMs,
  }: { readonly names: readonly string[]; readonly nowMs: number; readonly lifetimeMs: number },
): Promise<CertificatePair> {
  const x509 = await loadX509();
  const issuer = new x509.X509Certificate(authority.cert);
  const signingKey = await crypto.subtle.importKey(
    'pkcs8',
    x509.PemConverter.decodeFirst(authority.key),
    ALGORITHM,
    false,
    ['sign'],
  );
  const keys = await createKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    subject: 'CN=levelhook-webhooks',
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(nowMs - BACKDATED_MS),
    notAfter: new Date(Math.min(nowMs + lifetimeMs, issuer.notAfter.getTime())),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
      new x509.SubjectAlternativeNameExtension(
        names.map((value) => ({ type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const), value })),
      ),
    ],
  });
  return { cert: withEnd(certificate.toString('pem')), key: await pemOf(keys.privateKey) };
}

/** Whether this authority has signed it. */
export function isIssuedBy(cert: string, authority: string): boolean {
  const issuer = new X509Certificate(authority);
  const certificate = new X509Certificate(cert);
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

/** Milliseconds since the epoch. */
export function expiryOf(cert: string): number {
  return new X509Certificate(cert).validToDate.getTime();
}

/** Whether two thirds of its life are over. */
export function isDue(cert: string, nowMs: number): boolean {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  const fromMs = validFromDate.getTime() + BACKDATED_MS;
  return nowMs >= fromMs + ((validToDate.getTime() - fromMs) * 2) / 3;
}

/** Whether it is for all of these DNS names and addresses. */
export function isFor(cert: string, names: readonly string[]): boolean {
  const certificate = new X509Certificate(cert);
  return names.every((name) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)));
}

async function createKeys(): Promise<webcrypto.CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const { PemConverter } = await loadX509();
  return withEnd(PemConverter.encode(await crypto.subtle.exportKey('pkcs8', key), PemConverter.PrivateKeyTag));
}

function withEnd(pem: string): string {
  return `${pem.trimEnd()}\n`;
}
