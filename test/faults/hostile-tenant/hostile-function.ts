import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { formatObjectKey } from '../../../src/core/index.ts';
import { randomBytes } from 'node:crypto';
import { CONTRACT_VERSION, LEVELHOOK_HEADER, RESULT_STREAM, type Trigger } from '../../../src/contract/index.ts';

type Answer = (response: ServerResponse, trigger: Trigger) => void;

const results = (trigger: Trigger, result: object, status = 200) => {
  return { status, body: JSON.stringify({ version: CONTRACT_VERSION, results: trigger.requests.map(() => result) }) };
};

function answer(of: (trigger: Trigger) => { status: number; body: string }): Answer {
  return (response, trigger) => {
    const { status, body } = of(trigger);
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
}

/** Writes that no function did: their names lead elsewhere, their versions lie ahead of all that there are. */
function absurdWrites({ requests }: Trigger): object[] {
  const names = ['..', '.', '../../../api/v1/secrets', 'constructor', '__proto__', 'a\nb', 'x'.repeat(300), ''];
  return names.map((name, at) => ({
    apiVersion: at % 2 === 0 ? 'v1' : '../../api/v1',
    kind: at % 3 === 0 ? 'ConfigMap' : 'constructor',
    namespace: at % 2 === 0 ? (requests[0]?.namespace ?? '') : '..',
    name,
    uid: 'a\nb',
    ...(at % 4 === 3 ? { deleted: true } : { resourceVersion: '9'.repeat(30) }),
  }));
}

/** Asks for the next run as soon as there is one. */
const AGAIN = { requeueAfterSeconds: 0.001 };

/** Writes that a function may have made, as many as fit into an answer. */
function manyWrites({ requests }: Trigger): object[] {
  const namespace = requests[0]?.namespace ?? '';
  const uid = '01234567-89ab-cdef-0123-456789abcdef';
  const write = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'written', uid, resourceVersion: '1' };
  return Array.from({ length: Math.floor(900_000 / JSON.stringify(write).length / requests.length) }, () => write);
}

/** As many related objects as an answer may name, other ones each time. */
function otherRelated(): object[] {
  const names = (): string[] => Array.from({ length: 150 }, () => randomBytes(3).toString('hex'));
  return Array.from({ length: 18 }, () => ({ apiVersion: 'v1', kind: 'ConfigMap', names: names() }));
}

/** How a function answers its triggers, by name. */
export const BEHAVIOURS = {
  done: answer((trigger) => results(trigger, { status: 'done' })),
  garbage: answer(() => ({ status: 200, body: '<html>no</html>' })),
  'no result': answer(() => ({ status: 200, body: '{"version":"v1","results":[]}' })),
  'message of 600 KB': answer((trigger) => results(trigger, { status: 'error', message: 'm\n'.repeat(300_000) })),
  'terminal message of 600 KB': answer((trigger) =>
    results(trigger, { status: 'terminal', message: 'm'.repeat(600_000) }),
  ),
  'again at once': answer((trigger) => results(trigger, { status: 'done', requeueAfterSeconds: 0 })),
  'again at an absurd time': answer((trigger) => results(trigger, { status: 'done', requeueAfterSeconds: 1e308 })),
  'again at no time': answer((trigger) => results(trigger, { status: 'error', message: '', retryAfterSeconds: -1 })),
  'absurd writes': answer((trigger) => results(trigger, { status: 'done', writes: absurdWrites(trigger) })),
  'ten thousand writes': answer((trigger) => {
    const [write] = absurdWrites(trigger);
    return results(trigger, { status: 'done', writes: Array.from({ length: 5000 }, () => write) });
  }),
  'again at no time, successfully': answer((trigger) => results(trigger, { status: 'done', ...AGAIN })),
  'as many writes as fit': answer((trigger) =>
    results(trigger, { status: 'done', writes: manyWrites(trigger), ...AGAIN }),
  ),
  'an error with as many writes as fit': answer((trigger) =>
    results(trigger, { status: 'error', message: 'm', writes: manyWrites(trigger), retryAfterSeconds: 0.001 }),
  ),
  'other related objects each time': answer((trigger) =>
    results(trigger, { status: 'done', related: otherRelated(), ...AGAIN }),
  ),
  'lines of a stream with as many writes as fit': (response, trigger) => {
    response.writeHead(200, { 'content-type': RESULT_STREAM, [LEVELHOOK_HEADER]: 'v1' });
    const result = { status: 'error', message: 'm', writes: manyWrites(trigger), retryAfterSeconds: 0.001 };
    for (const { run } of trigger.requests) response.write(`${JSON.stringify({ run, result })}\n`);
    response.end();
  },
  'inherited status': answer((trigger) => results(trigger, { status: 'constructor' })),
  accepted: answer((trigger) => results(trigger, { status: 'accepted', withinSeconds: 2 }, 202)),
  'accepted without a callback': answer(() => ({ status: 202, body: '' })),
  unknown: answer((trigger) => results(trigger, { status: 'unknown', message: 'who knows' })),
  'nested answer': answer(() => ({
    status: 200,
    body: `{"version":"v1","results":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
  })),
  'two megabytes': answer(() => ({ status: 200, body: ' '.repeat(2_000_000) })),
  'status 500': answer(() => ({ status: 500, body: 'Error: boom\n    at main (app.js:1:1)' })),
  later: (response) => {
    response.writeHead(503, { [LEVELHOOK_HEADER]: 'v1', 'retry-after': '1e999' }).end();
  },
  gone: (response) => {
    response.writeHead(410, { [LEVELHOOK_HEADER]: 'v1' }).end();
  },
  redirect: (response, { cache }) => {
    response.writeHead(307, { location: cache.url ?? '/' }).end();
  },
  drip: (response) => {
    const drip = setInterval(() => response.write(' '), 20);
    response.on('close', () => clearInterval(drip));
  },
  never: () => {},
  cut: (response) => {
    response.socket?.resetAndDestroy();
  },
} as const satisfies Record<string, Answer>;

export type BehaviourName = keyof typeof BEHAVIOURS;

/** What a trigger gave the tenant: to look at, and to read with. */
export interface Delivery {
  readonly trigger: Trigger;
  /** The path, the headers and the body, as they came. */
  readonly text: string;
}

/**
 * The server behind all ReconcileFunctions of the hostile tenant: it believes every caller and keeps what it is sent.
 */
export class HostileFunction {
  /** Told of each trigger, which is answered after it. */
  onDelivery: (delivery: Delivery) => Promise<void> = async () => {};
  count = 0;
  /** Those that it was asked to reconcile. */
  readonly keys = new Set<string>();
  #behaviours: readonly BehaviourName[] = ['done'];
  readonly #server: Server = createServer((request, response) => void this.#answer(request, response));

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  behave(behaviours: readonly BehaviourName[]): void {
    this.#behaviours = behaviours;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await text(request);
      // The path names the ReconcileFunction whose endpoint it is.
      const name = (request.url ?? '/').slice(1);
      if (request.method === 'GET') return this.#describe(name, response);
      const trigger = JSON.parse(body) as Trigger;
      this.count += 1;
      for (const request of trigger.requests) this.keys.add(formatObjectKey(request));
      await this.onDelivery({ trigger, text: `${request.url}\n${JSON.stringify(request.headers)}\n${body}` });
      const behaviour = this.#behaviours[this.count % this.#behaviours.length] ?? 'done';
      BEHAVIOURS[behaviour](response, trigger);
    } catch {
      // The gateway has hung up.
      response.destroy();
    }
  }

  #describe(name: string, response: ServerResponse): void {
    const description = {
      version: CONTRACT_VERSION,
      name,
      for: { apiVersion: 'v1', kind: 'ConfigMap' },
      owns: [],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 1,
      timeoutSeconds: 1,
    };
    response.end(JSON.stringify(description));
  }
}
