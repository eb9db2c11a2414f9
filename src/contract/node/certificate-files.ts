import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** Paths of the PEM files with which a server serves https. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The chain and its key, in PEM form. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** @throws Error when a file cannot be read, or the two do not belong together. */
export function readCertificatePair({ certFile, keyFile }: CertificateFiles): CertificatePair {
  const pair = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
  createSecureContext(pair);
  return pair;
}

/**
 * Calls `listener` for each change of a file, as `watchFiles` does. A renewal writes one file before the other, so
 * certificate and key may not match between two calls.
 */
export function watchCertificateFiles({ certFile, keyFile }: CertificateFiles, listener: () => void): () => void {
  return watchFiles([certFile, keyFile], listener);
}

/**
 * Calls `listener` for each change of a file, within `CERTIFICATE_LOOK_MS`. The watch does not keep the process alive.
 * @returns a function that ends the watch.
 */
export function watchFiles(paths: readonly string[], listener: () => void): () => void {
  // Polls instead of using inotify: in a pod the files are links that are swapped.
  for (const path of paths) watchFile(path, { interval: CERTIFICATE_LOOK_MS, persistent: false }, listener);
  return () => paths.forEach((path) => unwatchFile(path, listener));
}

export const CERTIFICATE_LOOK_MS = 5000;
