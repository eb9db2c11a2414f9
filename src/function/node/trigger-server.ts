import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import {
  createServer as createTlsServer,
  type Server as TlsServer,
  type ServerOptions as TlsOptions,
} from 'node:https';
import { getRequestListener } from '@hono/node-server';
import type { Hono } from 'hono';
import { BodyBuffer } from '../../core/index.ts';
import { CONTRACT_VERSION, LEVELHOOK_HEADER } from '../../contract/index.ts';
import { PROFILE_PATH } from '../../contract/node/profile-request.ts';
import { importSecretSync, verifySync } from '../../contract/node/signature.ts';
import { type FunctionApp, tooLargeFor } from '../function-app.ts';
import type { LineSink, Platform, TriggerHandler } from '../trigger-handler.ts';
import { Profiles } from './profiles.ts';
import { undiciKubernetes } from './trigger-kubernetes.ts';
import { undiciFetch } from './undici-fetch.ts';

/** Node's faster versions of the platform's functions. */
const NODE: Platform = {
  createVerifier(secrets) {
    const keys = secrets.map(importSecretSync);
    return (message) => verifySync(keys, message);
  },
  fetch: undiciFetch,
  kubernetes: undiciKubernetes,
  // Runs after all input that has arrived, so that results of that input leave together.
  defer: (callback) => void setImmediate(callback),
};

/**
 * A server of an app. It passes the triggers of a function app to their handlers without a `Request`, a `Response` or a
 * web stream, which take a third of a trigger's time; all other requests go to the app. Below the path of each handler
 * the server takes signed requests for profiles of the process. With a certificate it serves https.
 */
export function createTriggerServer(
  app: Hono | FunctionApp,
  options: TlsOptions & { cert: string },
  profiles?: Profiles,
): TlsServer;
export function createTriggerServer(app: Hono | FunctionApp, options?: ServerOptions, profiles?: Profiles): Server;
export function createTriggerServer(
  app: Hono | FunctionApp,
  options: ServerOptions | TlsOptions = {},
  profiles: Profiles = new Profiles(),
): Server {
  const handlers: ReadonlyMap<string, TriggerHandler> = 'triggerHandlers' in app ? app.triggerHandlers : new Map();
  const answerers = new Map<string, Answerer>();
  for (const [path, handler] of handlers) {
    handler.runOn(NODE);
    const { maxBytes } = handler;
    answerers.set(path, { maxBytes, answer: (request) => handler.answer(request) });
    const profilePath = path.replace(/[/]$/, '') + PROFILE_PATH;
    answerers.set(profilePath, { maxBytes, answer: (request) => profiles.answer(handler, request) });
  }
  const other = getRequestListener(app.fetch);
  const listener = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const path = incoming.method === 'POST' ? incoming.url?.split('?', 1)[0] : undefined;
    const answerer = path === undefined ? undefined : answerers.get(path);
    if (answerer) readBody(incoming, answerer.maxBytes, (body) => void answer(answerer, body, incoming, outgoing));
    else void other(incoming, outgoing);
  };
  return 'cert' in options ? createTlsServer(options, listener) : createServer(options, listener);
}

type Answerer = Pick<TriggerHandler, 'answer' | 'maxBytes'>;

/** Calls back with the body, or with undefined when it is too large, or never when it does not come whole. */
function readBody(incoming: IncomingMessage, maxBytes: number, whole: (body: string | undefined) => void): void {
  const buffer = new BodyBuffer();
  let size = 0;
  incoming.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= maxBytes) buffer.add(chunk);
    else buffer.take();
  });
  incoming.on('end', () => whole(size > maxBytes ? undefined : buffer.takeText()));
  // The connection broke, or the sender was too slow: no answer can reach it.
  incoming.on('error', () => {});
}

async function answer(
  answerer: Answerer,
  body: string | undefined,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  if (body === undefined) {
    const headers = { 'content-type': 'application/json', [LEVELHOOK_HEADER]: CONTRACT_VERSION };
    return send(outgoing, 413, headers, JSON.stringify({ error: tooLargeFor(answerer.maxBytes) }));
  }
  const answered = await answerer.answer({
    method: 'POST',
    headers: { get: (name) => incoming.headers[name]?.toString() ?? null },
    body,
    // `close` comes after a whole answer, too, when no run is left.
    hangUp: (listener) => {
      if (outgoing.destroyed) listener();
      else outgoing.once('close', listener);
    },
  });
  const { status, headers } = answered;
  if (typeof answered.body === 'string') send(outgoing, status, headers, answered.body);
  else answered.body(sinkOf(outgoing, headers));
}

/** Lines that are all available at once leave as one body. */
function sinkOf(outgoing: ServerResponse, headers: Readonly<Record<string, string>>): LineSink {
  return {
    write(lines) {
      if (outgoing.destroyed) return;
      if (!outgoing.headersSent) outgoing.writeHead(200, headers);
      outgoing.write(lines);
    },
    end(lines) {
      if (outgoing.headersSent) outgoing.end(lines);
      else send(outgoing, 200, headers, lines);
    },
  };
}

function send(outgoing: ServerResponse, status: number, headers: Readonly<Record<string, string>>, body: string): void {
  if (outgoing.destroyed) return;
  outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
}
