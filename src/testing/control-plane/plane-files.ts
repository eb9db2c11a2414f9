import { join } from 'node:path';

/** The user of the file `kubeconfig`; other users' files have their names. */
export const adminName = 'admin';

/** The files of a control plane in its directory. */
export class PlaneFiles {
  readonly directory: string;
  readonly tokens: string;
  readonly pki: string;
  readonly logs: string;
  readonly etcdData: string;
  /** What a later start of this plane needs besides: see `KeptPlane`. */
  readonly kept: string;
  readonly admission: string;
  readonly admissionClient: string;

  constructor(directory: string) {
    this.directory = directory;
    this.tokens = join(directory, 'tokens.csv');
    this.pki = join(directory, 'pki');
    this.logs = join(directory, 'log');
    this.etcdData = join(directory, 'etcd');
    this.kept = join(directory, 'plane.json');
    this.admission = join(directory, 'admission.yaml');
    this.admissionClient = join(directory, 'admission-client.yaml');
  }

  kubeconfig(user: string): string {
    // A user's name may be system:serviceaccount:x:y, or any other text that is no file name.
    return join(this.directory, user === adminName ? 'kubeconfig' : `${encodeURIComponent(user)}.kubeconfig`);
  }

  /** A file of the keys and certificates from `createCertificates`. */
  key(name: string): string {
    return join(this.pki, name);
  }

  log(part: string): string {
    return join(this.logs, `${part}.log`);
  }
}
