import { readFileSync } from 'node:fs';
import { Agent, type Dispatcher } from 'undici';
import { parse } from 'yaml';

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
  readonly users: readonly { readonly user: { readonly token: string } }[];
}

/** What a program of few lines asks of the apiserver. */
export interface ApiRequest {
  readonly method: 'GET' | 'PATCH';
  readonly path: string;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly contentType?: string;
  readonly body?: string;
}

/** Asks the apiserver of the control plane's kubeconfig, over connections that stay. */
export function apiserver(file: string): (request: ApiRequest) => Promise<Dispatcher.ResponseData> {
  const { clusters, users } = parse(readFileSync(file, 'utf8')) as Kubeconfig;
  const { server: origin = '', 'certificate-authority-data': ca = '' } = clusters[0]?.cluster ?? {};
  const agent = new Agent({ connect: { ca: Buffer.from(ca, 'base64') }, connections: 50, bodyTimeout: 0 });
  const headers = { authorization: `Bearer ${users[0]?.user.token}`, accept: 'application/json' };
  return ({ contentType, ...request }) =>
    agent.request({ ...request, origin, headers: { ...headers, ...(contentType && { 'content-type': contentType }) } });
}
