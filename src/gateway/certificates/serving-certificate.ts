import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { messageOf, type Metrics, silentMetrics, UserError } from '../../core/index.ts';

/** The certificate of a server, which is renewed while the server runs. */
export interface ServingCertificate {
  /** The chain and its key, in PEM form. @throws UserError when there is none that can be used. */
  current(): CertificatePair;
  /** Calls `listener` whenever `current` has another one. @returns what ends that. */
  onRenewed(listener: () => void): () => void;
}

export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** Paths of PEM files. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/**
 * A certificate in two files. It is read when it is first asked for, and again when a file changes. A pair that cannot
 * be used yet is left: one of the two has been written, and the change of the other comes next.
 */
export class FileCertificate implements ServingCertificate {
  readonly #files: TlsFiles;
  readonly #metrics: Pick<Metrics, 'count'>;
  #pair: CertificatePair | undefined;

  constructor(files: TlsFiles, metrics: Pick<Metrics, 'count'> = silentMetrics) {
    this.#files = files;
    this.#metrics = metrics;
  }

  current(): CertificatePair {
    this.#pair ??= readPair(this.#files, this.#metrics);
    return this.#pair;
  }

  onRenewed(listener: () => void): () => void {
    const changed = (): void => {
      try {
        this.#pair = readPair(this.#files, this.#metrics);
      } catch {
        return;
      }
      listener();
    };
    // By looking, not by inotify: in a pod the files are links that are swapped.
    const paths = [this.#files.certFile, this.#files.keyFile];
    for (const path of paths) watchFile(path, { interval: LOOK_MS, persistent: false }, changed);
    return () => paths.forEach((path) => unwatchFile(path, changed));
  }
}

/** @throws UserError when a file cannot be read, or the two do not belong together. */
function readPair({ certFile, keyFile }: TlsFiles, metrics: Pick<Metrics, 'count'>): CertificatePair {
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

const LOOK_MS = 5000;
