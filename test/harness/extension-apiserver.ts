import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { APIService, Service } from '../../src/function/kinds/index.ts';
import { createCertificates } from '../../src/testing/control-plane/certificates.ts';
import type { Cluster } from './cluster.ts';
import { eventually } from './eventually.ts';
import { LoopbackServer } from './loopback-server.ts';
import type { Started } from './started.ts';

const GROUP = 'extension.levelhook.test';
const VERSION = 'v1';
const PATH = `/apis/${GROUP}/${VERSION}`;
/** No `deletecollection`, which every namespaced kind of kube-apiserver and of CustomResourceDefinitions has. */
const VERBS = ['list', 'delete'];

/** An aggregated apiserver with one kind, Thing, whose objects can only be deleted one by one. */
export class ExtensionApiserver extends LoopbackServer {
  /** Names of Things by namespace. */
  readonly #things = new Map<string, Set<string>>();

  private constructor(pair: { cert: string; key: string }) {
    super(createServer(pair));
    this.answerBy(async (request, response) => this.#answer(request, response));
  }

  /** Serves until the end, as part of the API of this cluster. */
  static async start(started: Started, cluster: Cluster): Promise<ExtensionApiserver> {
    const folder = join(await started.directory(), 'tls');
    await createCertificates(folder);
    const file = (name: string) => readFile(join(folder, name), 'utf8');
    const extension = new ExtensionApiserver({ cert: await file('serving.crt'), key: await file('serving.key') });
    await started.open(extension);
    await extension.#register(cluster);
    return extension;
  }

  create(namespace: string, name: string): void {
    this.#things.set(namespace, this.#namesIn(namespace).add(name));
  }

  list(namespace: string): string[] {
    return [...this.#namesIn(namespace)];
  }

  /** Until kube-apiserver's discovery has the kind. */
  async #register(cluster: Cluster): Promise<void> {
    const { port } = this;
    const service = { namespace: 'default', name: 'extension' };
    // kube-apiserver calls an external name as it is. A cluster IP would need kube-proxy.
    const spec = { type: 'ExternalName', externalName: '127.0.0.1' };
    await cluster.create(Service, { metadata: service, spec });
    await cluster.create(APIService, {
      metadata: { name: `${VERSION}.${GROUP}` },
      spec: {
        group: GROUP,
        version: VERSION,
        groupPriorityMinimum: 100,
        versionPriority: 100,
        insecureSkipTLSVerify: true,
        service: { ...service, port },
      },
    });
    // kube-apiserver tries again after a minute if its first try came before it knew the Service.
    await eventually(async () => {
      const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
      const { items } = await cluster.client.json<Discovery>({ path: '/apis', accept });
      const found = items.find(({ metadata: { name } }) => name === GROUP)?.versions[0];
      if (found?.freshness !== 'Current' || found.resources.length === 0) throw new Error('it is not discovered yet');
    }, 90_000);
  }

  #answer({ method, url = '/' }: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(url, 'https://extension');
    const [namespace = '', of, name] = pathname.slice(`${PATH}/namespaces/`.length).split('/');
    const answer = (code: number, body: object): void => {
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (pathname === PATH) {
      const resources = [{ name: 'things', singularName: 'thing', namespaced: true, kind: 'Thing', verbs: VERBS }];
      answer(200, { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: `${GROUP}/${VERSION}`, resources });
    } else if (!pathname.startsWith(`${PATH}/namespaces/`) || of !== 'things') {
      answer(404, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 });
    } else if (method === 'GET' && name === undefined) {
      const apiVersion = `${GROUP}/${VERSION}`;
      const items = this.list(namespace).map((each) => thing(namespace, each));
      answer(200, { kind: 'ThingList', apiVersion, metadata: { resourceVersion: '1' }, items });
    } else if (method === 'DELETE' && name !== undefined) {
      this.#namesIn(namespace).delete(name);
      answer(200, { kind: 'Status', apiVersion: 'v1', status: 'Success', details: { name, uid: name } });
    } else {
      answer(405, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'MethodNotAllowed', code: 405 });
    }
  }

  #namesIn(namespace: string): Set<string> {
    return this.#things.get(namespace) ?? new Set();
  }
}

interface Discovery {
  readonly items: readonly {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly { readonly freshness?: string; readonly resources: readonly object[] }[];
  }[];
}

function thing(namespace: string, name: string): object {
  return { kind: 'Thing', apiVersion: `${GROUP}/${VERSION}`, metadata: { namespace, name, uid: name } };
}
