import { type Logger, messageOf } from '../../core/index.ts';
import { watchFiles } from '../../contract/node/certificate-files.ts';
import { readCertificates } from '../config/certificates.ts';

/** The authorities by whose certificates a server knows its clients, which are renewed while the server runs. */
export interface ClientAuthorities {
  /** In PEM form. @throws UserError when there are none that can be used. */
  current(): string;
  /** Calls `listener` whenever `current` has others. @returns what ends that. */
  onRenewed(listener: () => void): () => void;
}

/**
 * Authorities in a file. It is read when it is first asked for, and again when it changes. A file that cannot be used
 * is told in the log, and the authorities before it stay.
 */
export class FileAuthorities implements ClientAuthorities {
  readonly #path: string;
  readonly #logger: Pick<Logger, 'warn'>;
  #pem: string | undefined;

  constructor(path: string, logger: Pick<Logger, 'warn'>) {
    this.#path = path;
    this.#logger = logger;
  }

  current(): string {
    this.#pem ??= readCertificates(this.#path, 'webhookClientCaFile');
    return this.#pem;
  }

  onRenewed(listener: () => void): () => void {
    return watchFiles([this.#path], () => {
      try {
        const pem = readCertificates(this.#path, 'webhookClientCaFile');
        if (pem === this.#pem) return;
        this.#pem = pem;
      } catch (error) {
        this.#logger.warn({ error: messageOf(error) }, 'the authorities of clients stay as they are');
        return;
      }
      listener();
    });
  }
}
