import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { messageOf, UserError } from '../../core/index.ts';
import { variableOf } from './config.ts';

/**
 * The certificate authorities in a PEM file.
 * @param setting that names the file, for the message.
 * @throws UserError when it cannot be read, or holds none.
 */
export function readCertificates(path: string, setting: 'functionCaFile' | 'webhookClientCaFile'): string {
  let pem: string;
  try {
    pem = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UserError(`${variableOf(setting)} cannot be read (${messageOf(error)}): check the path.`);
  }
  try {
    // Node accepts a file without certificates and then trusts no other side, without a word.
    void new X509Certificate(pem);
    return pem;
  } catch {
    throw new UserError(`${variableOf(setting)} is wrong: ${path} holds no certificate in PEM form.`);
  }
}
