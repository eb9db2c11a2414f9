import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isIssuedBy } from './authority.ts';
import type { CertificatePair } from '../../contract/node/certificate-files.ts';

/** The content of the Secret. */
export interface StoredCertificates {
  /** PEM, each one certificate: one authority, or during a rotation the old one and then the new one. */
  readonly authorities: readonly [string] | readonly [old: string, next: string];
  /** Of the last authority. The key of an old one is gone. */
  readonly authorityKey: string;
  readonly serving: CertificatePair;
}

type Data = Readonly<Record<string, string>>;

/** The content of every `caBundle`. */
export function bundleOf({ authorities }: StoredCertificates): string {
  return authorities.join('');
}

/** The data of the Secret, in base64: that of the type `kubernetes.io/tls`, and the authority. */
export function encodeCertificates(stored: StoredCertificates): Data {
  const { authorityKey, serving } = stored;
  const plain = {
    'ca.crt': bundleOf(stored),
    'ca.key': authorityKey,
    'tls.crt': serving.cert,
    'tls.key': serving.key,
  };
  return Object.fromEntries(Object.entries(plain).map(([name, text]) => [name, Buffer.from(text).toString('base64')]));
}

/** Undefined when the Secret has something else: nothing that this gateway could go on with. */
export function decodeCertificates(data: Data = {}): StoredCertificates | undefined {
  const text = (name: string): string => Buffer.from(data[name] ?? '', 'base64').toString('utf8');
  const [first, second, ...more] =
    text('ca.crt').match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (first === undefined || more.length > 0) return undefined;
  const authorities = second === undefined ? ([`${first}\n`] as const) : ([`${first}\n`, `${second}\n`] as const);
  const [authorityKey, serving] = [text('ca.key'), { cert: text('tls.crt'), key: text('tls.key') }];
  try {
    const belong = (cert: string, key: string): boolean =>
      new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
    const isWhole =
      belong(authorities.at(-1) ?? '', authorityKey) &&
      belong(serving.cert, serving.key) &&
      authorities.some((each) => isIssuedBy(serving.cert, each));
    return isWhole ? { authorities, authorityKey, serving } : undefined;
  } catch {
    return undefined;
  }
}
