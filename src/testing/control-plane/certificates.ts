import type { webcrypto } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { ExtendedKeyUsageType, Extension, X509Certificate } from '@peculiar/x509';

import { loadX509 } from '../../gateway/certificates/x509-library.ts';

const keyAlgorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const hourMs = 3_600_000;

/** The DNS names and addresses of the apiserver; 10.96.0.1 is the `kubernetes` Service. */
const servingNames = [
  { type: 'ip', value: '127.0.0.1' },
  { type: 'ip', value: '10.96.0.1' },
  { type: 'dns', value: 'localhost' },
  { type: 'dns', value: 'kubernetes' },
  { type: 'dns', value: 'kubernetes.default' },
  { type: 'dns', value: 'kubernetes.default.svc' },
  { type: 'dns', value: 'kubernetes.default.svc.cluster.local' },
] as const;

interface Authority {
  readonly certificate: X509Certificate;
  readonly keys: webcrypto.CryptoKeyPair;
}

/**
 * Makes the keys and certificates of a control plane in `directory`, all of mode 0600 and valid for a year:
 * `ca`, `serving` (for every part that serves TLS), `front-proxy-ca`, `front-proxy-client` (`.crt`, `.key`) and the key
 * pair of ServiceAccount tokens (`service-account.key`, `.pub`). Returns the CA's certificate.
 */
export async function createCertificates(directory: string): Promise<string> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { ExtendedKeyUsage, SubjectAlternativeNameExtension } = await loadX509();
  const write = async (name: string, pem: string): Promise<void> =>
    writeFile(join(directory, name), `${pem}\n`, { mode: 0o600 });
  const writePair = async (name: string, { certificate, keys }: Authority): Promise<void> => {
    await write(`${name}.crt`, certificate.toString('pem'));
    await write(`${name}.key`, await pemOf(keys.privateKey));
  };

  const ca = await createAuthority('kubernetes');
  const frontProxyCa = await createAuthority('front-proxy-ca');
  await writePair('ca', ca);
  await writePair('front-proxy-ca', frontProxyCa);
  await writePair(
    'serving',
    await createLeaf(ca, 'kube-apiserver', ExtendedKeyUsage.serverAuth, [
      new SubjectAlternativeNameExtension([...servingNames]),
    ]),
  );
  await writePair(
    'front-proxy-client',
    await createLeaf(frontProxyCa, 'front-proxy-client', ExtendedKeyUsage.clientAuth, []),
  );
  const serviceAccount = await createKeys();
  await write('service-account.key', await pemOf(serviceAccount.privateKey));
  await write('service-account.pub', await pemOf(serviceAccount.publicKey));
  return ca.certificate.toString('pem');
}

async function createAuthority(commonName: string): Promise<Authority> {
  const x509 = await loadX509();
  const keys = await createKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${commonName}`,
    keys,
    signingAlgorithm: keyAlgorithm,
    ...validity(),
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.digitalSignature, true),
      // Without a key identifier Go and OpenSSL find the issuer by name alone, and could confuse the two CAs.
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate, keys };
}

async function createLeaf(
  issuer: Authority,
  commonName: string,
  usage: ExtendedKeyUsageType,
  more: Extension[],
): Promise<Authority> {
  const x509 = await loadX509();
  const keys = await createKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    subject: `CN=${commonName}`,
    issuer: issuer.certificate.subject,
    publicKey: keys.publicKey,
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: keyAlgorithm,
    ...validity(),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.ExtendedKeyUsageExtension([usage]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.certificate),
      ...more,
    ],
  });
  return { certificate, keys };
}

async function createKeys(): Promise<webcrypto.CryptoKeyPair> {
  return crypto.subtle.generateKey(keyAlgorithm, true, ['sign', 'verify']);
}

/** Begins an hour ago, because a clock may be set back a little. */
function validity(): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - hourMs), notAfter: new Date(now + 365 * 24 * hourMs) };
}

async function pemOf(key: webcrypto.CryptoKey): Promise<string> {
  const { PemConverter } = await loadX509();
  const secret = key.type === 'private';
  return PemConverter.encode(
    await crypto.subtle.exportKey(secret ? 'pkcs8' : 'spki', key),
    secret ? PemConverter.PrivateKeyTag : PemConverter.PublicKeyTag,
  );
}
