import { createServer, type ServerResponse } from 'node:http';
import {
  formatKind,
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  type Resource,
  resourcePath,
} from '../../src/core/index.ts';
import { LoopbackServer } from './loopback-server.ts';

/** What the next list does instead of answering as asked. */
export type ListFault = 'stale' | 'error' | 'throttle' | 'expire-token' | 'refuse-stream' | 'cut';

/** How the watches of a kind are ended. */
export type WatchCut = 'destroy' | 'end' | 'half-line' | 'garbage' | 'expired' | 'throttled';

interface Logged {
  readonly version: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubernetesObject;
}

interface Connection {
  readonly response: ServerResponse;
  /** Everything up to here has been sent. */
  sent: number;
  /** The last events that were sent, to be sent twice. */
  last: Logged[];
}

class Kind {
  readonly resource: Resource;
  /** Everything that ever happened in this timeline, in order. */
  log: Logged[] = [];
  /** The watch cache reaches back to here; older versions are answered with 410. */
  oldest = 0;
  paused = false;
  readonly faults: ListFault[] = [];
  readonly connections = new Set<Connection>();
  /** Counts reads of the current version, lists included: a client has looked at the server's time. */
  looks = 0;

  constructor(resource: Resource) {
    this.resource = resource;
  }

  /** What existed at this version. */
  at(version: number): Map<string, KubernetesObject> {
    const found = new Map<string, KubernetesObject>();
    for (const event of this.log) {
      if (event.version > version) break;
      const key = formatObjectKey(keyOf(event.object));
      if (event.type === 'DELETED') found.delete(key);
      else found.set(key, event.object);
    }
    return found;
  }
}

/**
 * An apiserver that keeps objects of a few kinds in memory, under one version that only grows, and does on demand what
 * a real one does rarely: cuts a watch in the middle of a line, forgets its watch cache, answers from an old snapshot,
 * sends a batch twice, comes back with the data of last week.
 */
export class ModelApiserver extends LoopbackServer {
  readonly #kinds = new Map<string, Kind>();
  readonly #random: () => number;
  #version = 100;
  #uids = 0;

  private constructor(resources: readonly Resource[], random: () => number) {
    super(createServer());
    for (const resource of resources) this.#kinds.set(formatKind(resource), new Kind(resource));
    this.#random = random;
    this.answerBy(async (request, response) => {
      const url = new URL(request.url ?? '', 'http://model');
      const kind = [...this.#kinds.values()].find(({ resource }) => resourcePath(resource) === url.pathname);
      if (!kind) return answer(response, 404, status(404, 'NotFound', 'no such path'));
      const query = url.searchParams;
      if (query.get('watch') === 'true') this.#watch(kind, query, response);
      else this.#list(kind, query, response);
    });
  }

  static async start(resources: readonly Resource[], random: () => number): Promise<ModelApiserver> {
    const model = new ModelApiserver(resources, random);
    await model.open();
    return model;
  }

  /** The newest version of anything. */
  get version(): number {
    return this.#version;
  }

  objects(resource: Resource): Map<string, KubernetesObject> {
    return this.#kind(resource).at(this.#version);
  }

  /** Creates the object, or replaces all of it but its identity. */
  write(resource: Resource, object: { metadata: { namespace: string; name: string }; [field: string]: unknown }): void {
    const old = this.objects(resource).get(formatObjectKey(object.metadata));
    this.#version += 1;
    const written = {
      ...object,
      metadata: {
        ...object.metadata,
        uid: old?.metadata.uid ?? `uid-${(this.#uids += 1)}`,
        resourceVersion: String(this.#version),
        managedFields: [{ manager: 'model' }],
      },
      apiVersion: resource.apiVersion,
      kind: resource.kind,
    } as unknown as KubernetesObject;
    this.#happened(resource, { version: this.#version, type: old ? 'MODIFIED' : 'ADDED', object: written });
  }

  delete(resource: Resource, key: { namespace: string; name: string }): void {
    const old = this.objects(resource).get(formatObjectKey(key));
    if (!old) return;
    this.#version += 1;
    const object = { ...old, metadata: { ...old.metadata, resourceVersion: String(this.#version) } };
    this.#happened(resource, { version: this.#version, type: 'DELETED', object });
  }

  /** Nothing is sent until `resume`: what happens meanwhile arrives at once. */
  pause(resource: Resource): void {
    this.#kind(resource).paused = true;
  }

  resume(resource: Resource): void {
    const kind = this.#kind(resource);
    kind.paused = false;
    this.#pump(kind);
  }

  /** Tells every open watch how far it is. */
  bookmark(resource: Resource): void {
    const kind = this.#kind(resource);
    if (kind.paused) return;
    for (const connection of kind.connections) send(connection, bookmark(kind.resource, this.#version, false));
  }

  /** The last `count` events once more, in order. */
  repeat(resource: Resource, count: number): void {
    const kind = this.#kind(resource);
    for (const connection of kind.connections) {
      for (const event of connection.last.slice(-count)) send(connection, line(kind.resource, event));
    }
  }

  cutWatches(resource: Resource, how: WatchCut): void {
    const kind = this.#kind(resource);
    for (const connection of kind.connections) {
      switch (how) {
        case 'destroy':
          connection.response.destroy();
          break;
        case 'end':
          connection.response.end();
          break;
        case 'half-line':
          connection.response.write('{"type":"MODIFIED","object":{"metadata":{"na');
          setImmediate(() => connection.response.destroy());
          break;
        case 'garbage':
          connection.response.end('{"type":"MODIFIED","object":{"metadata":\n');
          break;
        case 'expired':
          connection.response.end(error(status(410, 'Expired', 'too old resource version')));
          break;
        case 'throttled':
          connection.response.end(error(status(429, 'TooManyRequests', 'slow down')));
          break;
      }
    }
    kind.connections.clear();
  }

  /** The watch cache begins now: a watch that is behind has to list again. */
  compact(resource: Resource): void {
    this.#kind(resource).oldest = this.#version;
  }

  failNextList(resource: Resource, fault: ListFault): void {
    this.#kind(resource).faults.push(fault);
  }

  /** From here on everything works. */
  heal(): void {
    for (const kind of this.#kinds.values()) {
      kind.faults.length = 0;
      kind.paused = false;
      this.#pump(kind);
    }
  }

  /** The data of an earlier version, as after a restore of etcd: all connections break, and versions are used again. */
  restore(version: number): void {
    this.#version = version;
    for (const kind of this.#kinds.values()) {
      kind.log = kind.log.filter((event) => event.version <= version);
      kind.oldest = version;
      kind.looks = 0;
      for (const { response } of kind.connections) response.destroy();
      kind.connections.clear();
    }
  }

  /** Whether a client has asked for each kind since the last restore. */
  get lookedAt(): boolean {
    return [...this.#kinds.values()].every(({ looks }) => looks > 0);
  }

  #kind(resource: Resource): Kind {
    const kind = this.#kinds.get(formatKind(resource));
    if (!kind) throw new Error(`the model has no ${formatKind(resource)}`);
    return kind;
  }

  #happened(resource: Resource, event: Logged): void {
    const kind = this.#kind(resource);
    kind.log.push(event);
    this.#pump(kind);
  }

  #pump(kind: Kind): void {
    if (kind.paused) return;
    for (const connection of kind.connections) {
      for (const event of kind.log) {
        if (event.version <= connection.sent) continue;
        send(connection, line(kind.resource, event));
        connection.sent = event.version;
        connection.last = [...connection.last, event].slice(-4);
      }
    }
  }

  /** A version that a server may answer from when asked for one not older than this. */
  #anyVersionFrom(asked: number): number {
    return asked + Math.floor(this.#random() * (this.#version - asked + 1));
  }

  #list(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    const limit = Number(query.get('limit') ?? '0');
    const token = query.get('continue');
    const asked = query.get('resourceVersion') ?? '';
    // The look at the current version is no list: it always works.
    const fault = limit === 1 ? undefined : kind.faults.shift();
    if (fault === 'error') return answer(response, 500, status(500, 'InternalError', 'no'));
    if (fault === 'throttle')
      return answer(response, 429, status(429, 'TooManyRequests', 'no'), { 'retry-after': '1' });
    if (fault === 'cut') return void response.destroy();
    if (token && fault === 'expire-token') return answer(response, 410, status(410, 'Expired', 'token too old'));
    let version = this.#version;
    let from = 0;
    if (token) [version = 0, from = 0] = token.split('-').map(Number);
    else if (asked !== '') {
      if (Number(asked) > this.#version) return answer(response, 504, tooLarge(asked, this.#version));
      const low = Math.max(Number(asked), kind.oldest);
      version = fault === 'stale' ? this.#older(kind, low) : this.#anyVersionFrom(low);
      if (query.get('resourceVersionMatch') === 'Exact') version = Number(asked);
    }
    kind.looks += 1;
    const named = /metadata\.name=([^,]+)/.exec(query.get('fieldSelector') ?? '')?.[1];
    const all = [...kind.at(version)]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object)
      .filter(({ metadata }) => named === undefined || metadata.name === named);
    // Small pages, so that there is something between them; the caller asks for 500.
    const size = limit > 1 ? 2 : limit || all.length;
    const items = all.slice(from, from + size).map(withoutKind);
    const rest = from + size < all.length ? `${version}-${from + size}` : undefined;
    answer(response, 200, {
      metadata: { resourceVersion: String(version), ...(rest ? { continue: rest } : {}) },
      items,
    });
  }

  /** Older than what was asked for: what a second apiserver behind the same address may do when it lags. */
  #older(kind: Kind, version: number): number {
    return Math.max(kind.oldest, 1, version - 1 - Math.floor(this.#random() * 4));
  }

  #watch(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    const asked = Number(query.get('resourceVersion') || '0');
    const listing = query.get('sendInitialEvents') === 'true';
    const fault = listing ? kind.faults.shift() : undefined;
    if (fault === 'error') return answer(response, 500, status(500, 'InternalError', 'no'));
    if (fault === 'throttle')
      return answer(response, 429, status(429, 'TooManyRequests', 'no'), { 'retry-after': '1' });
    if (fault === 'refuse-stream')
      return answer(response, 422, status(422, 'Invalid', 'sendInitialEvents is forbidden'));
    if (listing) {
      if (asked > this.#version) return answer(response, 504, tooLarge(String(asked), this.#version));
      kind.looks += 1;
    } else if (asked < kind.oldest) {
      const expired = status(410, 'Expired', 'too old resource version');
      if (this.#random() < 0.5) return answer(response, 410, expired);
      response.writeHead(200).end(error(expired));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const connection: Connection = { response, sent: asked, last: [] };
    if (listing) {
      const low = Math.max(asked, kind.oldest);
      const version = fault === 'stale' ? this.#older(kind, low) : this.#anyVersionFrom(low);
      const objects = [...kind.at(version).values()];
      const all = fault === 'cut' ? objects.slice(0, objects.length / 2) : objects;
      for (const object of all) send(connection, line(kind.resource, { version, type: 'ADDED', object }));
      if (fault === 'cut') return void setImmediate(() => response.destroy());
      connection.sent = version;
      // A change may come between the initial events and their end.
      if (this.#random() < 0.5) {
        const next = kind.log.find((event) => event.version > version);
        if (next) {
          send(connection, line(kind.resource, next));
          connection.sent = next.version;
        }
      }
      send(connection, bookmark(kind.resource, connection.sent, true));
    }
    kind.connections.add(connection);
    response.on('close', () => kind.connections.delete(connection));
    this.#pump(kind);
  }
}

function withoutKind({ apiVersion: _, kind: __, ...object }: KubernetesObject): object {
  return object;
}

function line({ apiVersion, kind }: Resource, { type, object }: Logged): string {
  return `${JSON.stringify({ type, object: { ...object, apiVersion, kind } })}\n`;
}

function bookmark({ apiVersion, kind }: Resource, version: number, endsList: boolean): string {
  const annotations = endsList ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {};
  const object = { apiVersion, kind, metadata: { resourceVersion: String(version), ...annotations } };
  return `${JSON.stringify({ type: 'BOOKMARK', object })}\n`;
}

function error(object: object): string {
  return `${JSON.stringify({ type: 'ERROR', object })}\n`;
}

function send({ response }: Connection, text: string): void {
  if (!response.destroyed && !response.writableEnded) response.write(text);
}

function status(code: number, reason: string, message: string): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message };
}

function tooLarge(asked: string, current: number): object {
  const details = { causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }] };
  return { ...status(504, 'Timeout', `Too large resource version: ${asked}, current: ${current}`), details };
}

function answer(response: ServerResponse, code: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
