import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  formatKind,
  type GroupVersionKind,
  messageOf,
  resource,
  silentLogger,
  silentMetrics,
  systemClock,
} from '../../src/core/index.ts';
import {
  type CallbackBody,
  type Description,
  generateSecret,
  LEVELHOOK_HEADER,
  type OutcomeBody,
  RESULT_STREAM,
  type ResultLine,
  sign,
} from '../../src/contract/index.ts';
import { importExtractableSecret } from '../../src/contract/signature.ts';
import { checkEncryptedKinds, checkSecretReviews } from '../../src/gateway/controller/access/encrypted-kinds.ts';
import { CacheAccess } from '../../src/gateway/controller/access/cache-access.ts';
import { Expressions } from '../../src/gateway/controller/cel/expressions.ts';
import { Dispatcher } from '../../src/gateway/controller/dispatch/dispatcher.ts';
import { RelatedObjects } from '../../src/gateway/controller/dispatch/related-objects.ts';
import { describeFunction } from '../../src/gateway/controller/endpoint/describe.ts';
import { Endpoint } from '../../src/gateway/controller/endpoint/endpoint.ts';
import { checkScopes } from '../../src/gateway/controller/handlers/check-sources.ts';
import { KeyScope } from '../../src/gateway/controller/handlers/key-scope.ts';
import { EventSources } from '../../src/gateway/controller/running/event-sources.ts';
import { queueOptions } from '../../src/gateway/controller/running/queue-options.ts';
import type { Finish, Run } from '../../src/gateway/controller/workqueue/work-queue.ts';
import { callbackApi } from '../../src/gateway/http/server/callback-api.ts';
import { ownBounds } from '../../test/harness/own-bounds.ts';

const runtime = { clock: systemClock, logger: silentLogger, metrics: silentMetrics };
const CALLBACK = { url: 'https://gateway.example.com/callback/web', token: 't', maxSeconds: 86_400 };

interface FunctionAnswer {
  readonly body: string;
  readonly status?: number;
  readonly type?: string;
}

/**
 * The parts of a gateway that read the bodies from functions, with their own limits and checks. A server on loopback
 * sends each body as a function would. Redis has no part in it.
 */
export class AcceptingGateway {
  readonly #secret = generateSecret();
  #answer: FunctionAnswer = { body: '' };
  readonly #server = createServer((request, response) => {
    const { body, status = 200, type = 'application/json' } = this.#answer;
    request.resume().on('end', () => {
      response.writeHead(status, { 'content-type': type, [LEVELHOOK_HEADER]: 'v1' }).end(body);
    });
  });

  async open(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  close(): void {
    this.#server.close();
  }

  /** Reads a description, and makes the parts of its controller that could refuse it. @throws for a wrong one */
  async describe(body: string): Promise<Description> {
    const description = await withTime(() => this.#asked({ body }, (endpoint) => describeFunction(endpoint)));
    const { for: reconciled, name: controller } = description;
    const scope = new KeyScope(resource(reconciled.apiVersion, reconciled.kind), reconciled, []);
    await withTime(() => {
      const { budget } = ownBounds();
      return new EventSources(description, scope, new Expressions({ controller, budget, ...runtime }));
    });
    const { owns, watches, reads, webhooks = [] } = description;
    checkScopes(description, [reconciled, ...owns, ...watches, ...reads, ...webhooks].map(discovered));
    checkEncryptedKinds(description, { defaults: {}, kinds: {} }, true);
    checkSecretReviews(description, 'https://example.com');
    queueOptions(description);
    return description;
  }

  /** The ends of the runs of a trigger with a whole answer, in the order of its results. */
  async outcome(outcome: OutcomeBody): Promise<Finish[]> {
    const { results } = outcome;
    const status = results.some((result) => result.status === 'accepted') ? 202 : 200;
    const runs = results.map((_, at) => runOf(at + 1));
    return this.#asked({ body: JSON.stringify(outcome), status }, (endpoint) =>
      Promise.all(dispatcherOf(endpoint).run(runs)),
    );
  }

  /** The ends of these runs, whose trigger gets a streamed answer. Some of its lines may be of other runs. */
  async lines(lines: readonly ResultLine[], runs: readonly number[]): Promise<Finish[]> {
    const body = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    return this.#asked({ body, type: RESULT_STREAM }, (endpoint) =>
      Promise.all(dispatcherOf(endpoint).run(runs.map(runOf))),
    );
  }

  /** The end of a run by a callback; undefined if the callback is refused. */
  async callback(callback: CallbackBody): Promise<Finish | undefined> {
    const keys = [await importExtractableSecret(this.#secret)];
    return this.#asked({ body: '' }, async (endpoint) => {
      let finish: Finish | undefined;
      const app = callbackApi({
        healthy: () => true,
        mayCome: () => false,
        controller: (functionName) => ({
          functionName,
          keys,
          bounds: ownBounds(),
          callback: async ({ run, result }) => {
            finish = await dispatcherOf(endpoint).concluded(runOf(run), result);
            return { kind: 'taken' };
          },
        }),
        ...runtime,
      });
      const body = JSON.stringify(callback);
      const headers = { ...(await sign(keys, { id: 'msg', nowMs: Date.now(), body })) };
      const { status } = await app.request(`/${callback.controller}`, { method: 'POST', headers, body });
      return status === 200 ? finish : undefined;
    });
  }

  /** Asks the function by an endpoint of its own, so that no request counts for a later one. */
  async #asked<T>(answer: FunctionAnswer, ask: (endpoint: Endpoint) => Promise<T>): Promise<T> {
    this.#answer = answer;
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    const endpoint = new Endpoint(url, [await importExtractableSecret(this.#secret)], { connections: 1 });
    try {
      return await ask(endpoint);
    } finally {
      await endpoint.close();
    }
  }
}

/** Kinds of the documents that a cluster serves without namespaces. */
const CLUSTER_SCOPED: ReadonlySet<string> = new Set(['v1/Namespace', 'v1/Node', 'v1/PersistentVolume']);

const discovered = (of: GroupVersionKind) =>
  resource(of.apiVersion, of.kind, { namespaced: !CLUSTER_SCOPED.has(formatKind(of)) });

/**
 * Repeats work that reads expressions: on a busy machine an expression may take longer than the gateway allows, which
 * asks such a function again.
 */
export async function withTime<T>(work: () => T | Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (attempt === ATTEMPTS || !messageOf(error).includes('cannot be read within')) throw error;
    }
  }
}

const ATTEMPTS = 20;

function runOf(run: number): Run {
  return { key: `a/${run}`, run, incarnation: 'i', failures: 0, reasons: [], deadlineMs: Date.now() + 120_000 };
}

/** Of a controller whose runs may name related objects of any kind, and whose keys name 64 other kinds already. */
function dispatcherOf(endpoint: Endpoint): Dispatcher {
  const bounds = ownBounds();
  const named = Array.from({ length: 64 }, (_, at) => `v1/Other${at}`);
  const rules = { kinds: async () => named, views: async () => new Map(), replace: async () => STORED };
  const { budget } = bounds;
  const complete = (): ReadonlySet<string> => new Set(named);
  const related = new RelatedObjects({ rules, budget, kinds: undefined, complete, exists: async () => true });
  const cacheAccess = new CacheAccess({ views: [], api: undefined, clock: systemClock });
  const callback = { maxSeconds: CALLBACK.maxSeconds, location: () => CALLBACK };
  return new Dispatcher({
    controller: 'web',
    target: { endpoint, cacheAccess, callback, related },
    views: [],
    starts: { keys: { allow() {} }, ending: new AbortController().signal },
    bounds,
    runtime,
    settings: { logTriggers: false, startWindowMs: 0 },
  });
}

const STORED = { cost: 0, tooMany: undefined };
