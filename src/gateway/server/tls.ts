import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import type { Server } from 'node:https';
import { createSecureContext } from 'node:tls';
import { messageOf, type Metrics, silentMetrics, UserError } from '../../core/index.ts';

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** @throws UserError when a file cannot be read, or the two do not belong together. */
export function readTls(
  { certFile, keyFile }: TlsFiles,
  metrics: Pick<Metrics, 'count'> = silentMetrics,
): { cert: string; key: string } {
  // As controller-runtime's `ReadCertificate` (pkg/certwatcher/certwatcher.go).
  metrics.count('certwatcher_read_certificate_total', {});
  try {
    const pair = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    createSecureContext(pair);
    return pair;
  } catch (error) {
    metrics.count('certwatcher_read_certificate_errors_total', {});
    throw new UserError(`The certificate ${certFile} with the key ${keyFile} cannot be used (${messageOf(error)}).`);
  }
}

/**
 * Certificates are renewed while the gateway runs: new connections get the new one. A pair that cannot be used yet is
 * left.
 */
export function watchTls(files: TlsFiles, server: Server, metrics: Pick<Metrics, 'count'> = silentMetrics): () => void {
  const changed = (): void => {
    try {
      server.setSecureContext(readTls(files, metrics));
    } catch {
      // One of the two has been written, and the other not yet: its change comes next.
    }
  };
  // By looking, not by inotify: in a pod the files are links that are swapped.
  const paths = [files.certFile, files.keyFile];
  for (const path of paths) watchFile(path, { interval: LOOK_MS, persistent: false }, changed);
  return () => paths.forEach((path) => unwatchFile(path, changed));
}

const LOOK_MS = 5000;
