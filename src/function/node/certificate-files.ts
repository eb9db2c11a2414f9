import type { Server } from 'node:https';
import { messageOf, UserError } from '../../core/index.ts';
import {
  CERTIFICATE_LOOK_MS,
  type CertificateFiles,
  type CertificatePair,
  readCertificatePair,
  watchCertificateFiles,
} from '../../contract/node/certificate-files.ts';
import { variable, type Variables } from '../environment.ts';

/** `TLS_CERT_FILE` and `TLS_KEY_FILE`. Undefined: plain http. @throws UserError when one of them is missing. */
export function certificateFiles(environment: Variables): CertificateFiles | undefined {
  const certFile = variable(environment, 'TLS_CERT_FILE');
  const keyFile = variable(environment, 'TLS_KEY_FILE');
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  if (certFile === undefined && keyFile === undefined) return undefined;
  throw new UserError('of TLS_CERT_FILE and TLS_KEY_FILE only one is set: https needs both');
}

/** @throws UserError when a file cannot be read, or the two do not belong together. */
export function readCertificate(files: CertificateFiles): CertificatePair {
  try {
    return readCertificatePair(files);
  } catch (error) {
    const { certFile, keyFile } = files;
    throw new UserError(`the certificate ${certFile} with the key ${keyFile} cannot be used (${messageOf(error)})`);
  }
}

/** Reloads the files when they change, for new connections. A pair that does not match yet is ignored. */
export function followCertificate(files: CertificateFiles, server: Server): () => void {
  let again: NodeJS.Timeout | undefined;
  const use = (onFailure: (error: unknown) => void): void => {
    clearTimeout(again);
    try {
      server.setSecureContext(readCertificate(files));
    } catch (error) {
      onFailure(error);
    }
  };
  const unwatch = watchCertificateFiles(files, () =>
    use(() => {
      // A renewal writes one file before the other, whose change comes next. If it does not come, stderr says why.
      again = setTimeout(
        () => use((error) => void process.stderr.write(`${messageOf(error)}\n`)),
        3 * CERTIFICATE_LOOK_MS,
      );
      again.unref();
    }),
  );
  return () => {
    clearTimeout(again);
    unwatch();
  };
}
