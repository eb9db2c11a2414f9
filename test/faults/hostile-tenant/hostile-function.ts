import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { formatObjectKey } from '../../../src/core/index.ts';
import { constants, randomBytes, randomUUID } from 'node:crypto';
import {
  CONTRACT_VERSION,
  importSecret,
  LEVELHOOK_HEADER,
  RESULT_STREAM,
  type ReviewRequest,
  sign,
  type Trigger,
} from '../../../src/contract/index.ts';
import { decodeReviewRequest, isReviewRequest } from '../../../src/contract/webhook.ts';
import { type CertificateChain, createCertificateChain } from '../../harness/certificate-chain.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';

/** Callbacks at a time, and how long it waits for the answer to one. */
const CALLS = 20;
const CALL_MS = 10_000;

type Answer = (response: ServerResponse, trigger: Trigger, call: CallBack) => void;

/** Sends the outcome of a run later, signed as a function signs it. */
type CallBack = (trigger: Trigger, result: object) => void;

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

/** Objects that are there: deletes of them are reported that never were. */
export const UNDELETED: object[] = [];

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

/** Selectors instead of names: each change of the kind has the gateway look at all of them. */
function selectingRelated(): object[] {
  const values = Array.from({ length: 16 }, () => randomBytes(4).toString('hex'));
  const expressions = ['a', 'b', 'c'].map((key) => ({ key, operator: 'NotIn', values }));
  return Array.from({ length: 40 }, () => {
    return { apiVersion: 'v1', kind: 'ConfigMap', labelSelector: { matchExpressions: expressions } };
  });
}

/** Names and values that are none: a reader that names each mistake has thousands to name. */
const WRONG_NAMES = Array.from({ length: 64 }, () => {
  return { apiVersion: 'v1', kind: 'ConfigMap', names: Array.from({ length: 256 }, () => '') };
});
const WRONG_VALUES = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  labelSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: Array.from({ length: 10_900 }, () => 0) }] },
};

/** Texts that a search for credentials may take long for, as many as fit; of the last nothing is left to show. */
const NOTES = {
  log: Array.from({ length: 100 }, (_, at) =>
    ['-eyJ', 'password', '://a:', 'token: 1', `token:${'://'.repeat(300)}`][at % 5]?.repeat(at % 5 === 4 ? 1 : 500),
  ),
  stack: `-----BEGIN PRIVATE KEY-----${'-eyJ'.repeat(100_000)}`,
};
const CONTROLS = Array.from({ length: 100 }, () => '\u0001'.repeat(1500));

/** How a function answers its triggers, by name. */
export const BEHAVIOURS = {
  done: answer((trigger) => results(trigger, { status: 'done' })),
  garbage: answer(() => ({ status: 200, body: '<html>no</html>' })),
  'no result': answer(() => ({ status: 200, body: '{"version":"v1","results":[]}' })),
  'message of 600 KB': answer((trigger) => results(trigger, { status: 'error', message: 'm\n'.repeat(300_000) })),
  'terminal message of 600 KB': answer((trigger) =>
    results(trigger, { status: 'terminal', message: 'm'.repeat(600_000) }),
  ),
  'a log and a stack that look like credentials': answer((trigger) =>
    results(trigger, { status: 'error', message: 'token: ', ...NOTES }),
  ),
  'a log of control characters': answer((trigger) => results(trigger, { status: 'done', log: CONTROLS, ...AGAIN })),
  'again at once': answer((trigger) => results(trigger, { status: 'done', requeueAfterSeconds: 0 })),
  'again at an absurd time': answer((trigger) => results(trigger, { status: 'done', requeueAfterSeconds: 1e308 })),
  'again at no time': answer((trigger) => results(trigger, { status: 'error', message: '', retryAfterSeconds: -1 })),
  'absurd writes': answer((trigger) => results(trigger, { status: 'done', writes: absurdWrites(trigger) })),
  'ten thousand writes': answer((trigger) => {
    const [write] = absurdWrites(trigger);
    return results(trigger, { status: 'done', writes: Array.from({ length: 5000 }, () => write) });
  }),
  'again at no time, successfully': answer((trigger) => results(trigger, { status: 'done', ...AGAIN })),
  'deletes that never were': answer((trigger) =>
    results(trigger, { status: 'done', writes: UNDELETED.map((write) => ({ ...write, deleted: true })), ...AGAIN }),
  ),
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
  'related objects by selector': answer((trigger) =>
    results(trigger, { status: 'done', related: selectingRelated(), ...AGAIN }),
  ),
  'as many lines of a stream as there may be': (response, trigger) => {
    response.writeHead(200, { 'content-type': RESULT_STREAM, [LEVELHOOK_HEADER]: 'v1' });
    const line = JSON.stringify({ run: -1, result: { status: 'done', related: otherRelated().slice(0, 4) } });
    for (let at = 0; at < 900; at += 1) response.write(`${line}\n`);
    for (const { run } of trigger.requests) {
      response.write(`${JSON.stringify({ run, result: { status: 'done', related: otherRelated(), ...AGAIN } })}\n`);
    }
    response.end();
  },
  'accepted, and as many writes as fit by callback': (response, trigger, call) => {
    const { status, body } = results(trigger, { status: 'accepted', withinSeconds: 2 }, 202);
    response.writeHead(status, { 'content-type': 'application/json', [LEVELHOOK_HEADER]: 'v1' }).end(body);
    call(trigger, {
      status: 'done',
      writes: manyWrites({ ...trigger, requests: trigger.requests.slice(0, 1) }),
      ...AGAIN,
    });
  },
  'accepted, and other related objects by callback': (response, trigger, call) => {
    const { status, body } = results(trigger, { status: 'accepted', withinSeconds: 2 }, 202);
    response.writeHead(status, { 'content-type': 'application/json', [LEVELHOOK_HEADER]: 'v1' }).end(body);
    call(trigger, { status: 'done', related: otherRelated(), ...AGAIN });
  },
  'related names that are none': answer((trigger) =>
    results(trigger, { status: 'done', related: WRONG_NAMES, ...AGAIN }),
  ),
  'related values that are none': answer((trigger) =>
    results(trigger, { status: 'done', related: [WRONG_VALUES], ...AGAIN }),
  ),
  'accepted, and a callback for a name of a megabyte': (response, trigger, call) => {
    const { status, body } = results(trigger, { status: 'accepted', withinSeconds: 2 }, 202);
    response.writeHead(status, { 'content-type': 'application/json', [LEVELHOOK_HEADER]: 'v1' }).end(body);
    const requests = trigger.requests.slice(0, 1).map((each) => ({ ...each, name: 'n'.repeat(1_000_000) }));
    call({ ...trigger, requests }, { status: 'done' });
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

/** How it answers reviews, in turn. */
const VERDICTS: readonly ((review: ReviewRequest) => string)[] = [
  ({ review }) => verdict(review, { allowed: true }),
  ({ review }) => verdict(review, { allowed: true, patch: 'e30=', patchType: 'JSONPatch' }),
  ({ review }) => verdict(review, { allowed: true, warnings: Array.from({ length: 300_000 }, () => '') }),
  ({ review }) => verdict(review, { allowed: false, status: { message: 'm'.repeat(3_000_000) } }),
  () => `{"response":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`,
];

function verdict({ apiVersion, kind, request }: ReviewRequest['review'], response: object): string {
  const { uid } = (request ?? {}) as { uid?: unknown };
  return JSON.stringify({ apiVersion, kind, response: { uid, ...response } });
}

/** What a trigger gave the tenant: to look at, and to read with. */
export interface Delivery {
  readonly trigger: Trigger;
  /** The path, the headers and the body, as they came. */
  readonly text: string;
}

/** It has a client verify 21 certificates for each request, since it keeps no connection and gives no ticket. */
class ChainedServer extends LoopbackServer {
  readonly caBundle: string;

  constructor({ ca, cert, key }: CertificateChain, answer: Parameters<LoopbackServer['answerBy']>[0]) {
    super(createSecureServer({ cert, key, secureOptions: constants.SSL_OP_NO_TICKET }));
    this.caBundle = Buffer.from(ca).toString('base64');
    this.answerBy((request, response) => {
      response.setHeader('connection', 'close');
      return answer(request, response);
    });
  }
}

/**
 * The server behind all ReconcileFunctions of the hostile tenant: it believes every caller and keeps what it is sent.
 */
export class HostileFunction extends LoopbackServer {
  /** Told of each trigger, which is answered after it. */
  onDelivery: (delivery: Delivery) => Promise<void> = async () => {};
  count = 0;
  reviews = 0;
  /** Callbacks that it has sent, by how they were answered. */
  readonly calledBack = new Map<number, number>();
  /** Those that it was asked to reconcile. */
  readonly keys = new Set<string>();
  #secure: ChainedServer | undefined;
  #behaviours: readonly BehaviourName[] = ['done'];
  readonly #secret: string;
  /** So many at a time. */
  #calls = 0;

  /** @param secret what its callbacks are signed with. */
  constructor(secret: string) {
    super(createServer());
    this.answerBy((request, response) => this.#answer(request, response));
    this.#secret = secret;
  }

  /** The same function by https. */
  get secure(): { readonly url: string; readonly caBundle: string } {
    if (!this.#secure) throw new Error('it is not open');
    return this.#secure;
  }

  override async open(): Promise<void> {
    await super.open();
    const chain = await createCertificateChain(21, 'P-521');
    this.#secure = new ChainedServer(chain, (request, response) => this.#answer(request, response));
    await this.#secure.open();
  }

  override async close(): Promise<void> {
    await this.#secure?.close();
    await super.close();
  }

  behave(behaviours: readonly BehaviourName[]): void {
    this.#behaviours = behaviours;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    // The path names the ReconcileFunction whose endpoint it is.
    const name = (request.url ?? '/').slice(1);
    if (request.method === 'GET') return this.#describe(name, response);
    const value: unknown = JSON.parse(body);
    if (isReviewRequest(value)) return this.#review(decodeReviewRequest(value), response);
    const trigger = value as Trigger;
    this.count += 1;
    for (const request of trigger.requests) this.keys.add(formatObjectKey(request));
    await this.onDelivery({ trigger, text: `${request.url}\n${JSON.stringify(request.headers)}\n${body}` });
    const behaviour = this.#behaviours[this.count % this.#behaviours.length] ?? 'done';
    const act: Answer = BEHAVIOURS[behaviour];
    act(response, trigger, (...call) => void this.#callBack(...call));
  }

  #review(review: ReviewRequest, response: ServerResponse): void {
    this.reviews += 1;
    response.writeHead(200, { 'content-type': 'application/json', [LEVELHOOK_HEADER]: 'v1' });
    response.end(VERDICTS[this.reviews % VERDICTS.length]?.(review));
  }

  async #callBack({ callback, controller, requests }: Trigger, result: object): Promise<void> {
    if (!callback) return;
    const { token, url } = callback;
    for (const { namespace, name, run } of requests) {
      if (this.#calls >= CALLS) return;
      this.#calls += 1;
      const body = JSON.stringify({ version: CONTRACT_VERSION, controller, token, namespace, name, run, result });
      const status = await this.send(url, body).finally(() => (this.#calls -= 1));
      this.calledBack.set(status, (this.calledBack.get(status) ?? 0) + 1);
    }
  }

  /** Sends a signed body. @returns the status of the answer; 0: there is none. */
  async send(url: string, body: string): Promise<number> {
    const keys = [await importSecret(this.#secret)];
    const signature = await sign(keys, { id: randomUUID(), nowMs: Date.now(), body });
    const headers = { 'content-type': 'application/json', ...signature };
    try {
      const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(CALL_MS) });
      await answer.arrayBuffer();
      return answer.status;
    } catch {
      return 0;
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
