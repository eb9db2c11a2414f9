import { readFile, writeFile } from 'node:fs/promises';

import { stringify } from 'yaml';

import type { PlaneFiles } from './plane-files.ts';

/**
 * Writes the file for `--admission-control-config-file`: the apiserver shows its client certificate
 * `front-proxy-client` to each webhook that requests one. A gateway recognises it if its client CA is
 * `front-proxy-ca.crt`.
 */
export async function writeAdmissionConfiguration(files: PlaneFiles): Promise<void> {
  const data = async (name: string): Promise<string> => (await readFile(files.key(name))).toString('base64');
  const user = {
    'client-certificate-data': await data('front-proxy-client.crt'),
    'client-key-data': await data('front-proxy-client.key'),
  };
  const client = { apiVersion: 'v1', kind: 'Config', users: [{ name: '*', user }] };
  await writeFile(files.admissionClient, stringify(client), { mode: 0o600 });
  const apiVersion = 'apiserver.config.k8s.io/v1';
  const configuration = { apiVersion, kind: 'WebhookAdmissionConfiguration', kubeConfigFile: files.admissionClient };
  const plugins = ['ValidatingAdmissionWebhook', 'MutatingAdmissionWebhook'].map((name) => ({ name, configuration }));
  await writeFile(files.admission, stringify({ apiVersion, kind: 'AdmissionConfiguration', plugins }), { mode: 0o600 });
}
