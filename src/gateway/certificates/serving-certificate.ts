import { messageOf, type Metrics, silentMetrics, UserError } from '../../core/index.ts';
import {
  type CertificateFiles,
  type CertificatePair,
  readCertificatePair,
  watchCertificateFiles,
} from '../../contract/node/certificate-files.ts';

/** The certificate of a server, which is renewed while the server runs. */
export interface ServingCertificate {
  /** The chain and its key, in PEM form. @throws UserError when there is none that can be used. */
  current(): CertificatePair;
  /** Calls `listener` whenever `current` has changed. @returns a function that ends the calls. */
  onRenewed(listener: () => void): () => void;
}

/**
 * A certificate in two files. It is read when it is first asked for, and again when a file changes. A pair that cannot
 * be used yet is left: one of the two has been written, and the change of the other comes next.
 */
export class FileCertificate implements ServingCertificate {
  readonly #files: CertificateFiles;
  readonly #metrics: Pick<Metrics, 'count'>;
  #pair: CertificatePair | undefined;

  constructor(files: CertificateFiles, metrics: Pick<Metrics, 'count'> = silentMetrics) {
    this.#files = files;
    this.#metrics = metrics;
  }

  current(): CertificatePair {
    this.#pair ??= readPair(this.#files, this.#metrics);
    return this.#pair;
  }

  onRenewed(listener: () => void): () => void {
    return watchCertificateFiles(this.#files, () => {
      try {
        this.#pair = readPair(this.#files, this.#metrics);
      } catch {
        return;
      }
      listener();
    });
  }
}

/** @throws UserError when a file cannot be read, or the two do not belong together. */
function readPair(files: CertificateFiles, metrics: Pick<Metrics, 'count'>): CertificatePair {
  // As controller-runtime's `ReadCertificate` (pkg/certwatcher/certwatcher.go).
  metrics.count('certwatcher_read_certificate_total', {});
  try {
    return readCertificatePair(files);
  } catch (error) {
    metrics.count('certwatcher_read_certificate_errors_total', {});
    const { certFile, keyFile } = files;
    throw new UserError(`The certificate ${certFile} with the key ${keyFile} cannot be used (${messageOf(error)}).`);
  }
}
