import { type Logger, messageOf } from '../../core/index.ts';
import { watchFiles } from '../../contract/node/certificate-files.ts';
import { readCertificates } from '../../ground/config/certificates.ts';

/** The authorities that a server accepts client certificates from. They are renewed while the server runs. */
export interface ClientAuthorities {
  /** In PEM form. @throws UserError when there are none that can be used. */
  current(): string;
  /** Calls `listener` whenever the authorities in `current` change. @returns a function that ends the calls. */
  onRenewed(listener: () => void): () => void;
}

/**
 * Authorities in a file. It is read at the first use, and again when it changes. If the file cannot be used, the log
 * says so, and the earlier authorities stay.
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
