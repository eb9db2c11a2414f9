import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { request, type Dispatcher } from 'undici';
import { importSecret, type OutcomeBody, sign, type Trigger } from '../../src/contract/index.ts';
import { LoopbackServer } from './loopback-server.ts';

/**
 * What a proxy between gateway and function does to triggers.
 *
 * - `pass`: nothing.
 * - `keep-answer`: it keeps the function's answer to itself.
 * - `answer-502`: in place of the function's answer, once that is there.
 * - `forget-writes`: takes from the answer what was written, so that the gateway has no barrier.
 * - `forget-deadline`: gives the function an hour, and does not tell it when the gateway hangs up.
 */
export type Tampering = 'pass' | 'keep-answer' | 'answer-502' | 'forget-writes' | 'forget-deadline';

/** A proxy that holds the signing secret: it can do what no honest one could. */
export class TriggerProxy extends LoopbackServer {
  tampering: Tampering = 'pass';
  readonly #target: string;
  readonly #secret: string;
  readonly #calls = new Set<AbortController>();

  constructor(target: string, secret: string) {
    super(createServer());
    this.#target = target;
    this.#secret = secret;
    this.answerBy((incoming, response) => this.#pass(incoming, response));
  }

  /** Breaks all connections, on both sides. */
  override cut(): void {
    super.cut();
    for (const call of this.#calls) call.abort();
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const tampering = incoming.method === 'POST' ? this.tampering : 'pass';
    const given = await text(incoming);
    const body = tampering === 'forget-deadline' ? withAnHour(given) : given;
    const call = new AbortController();
    this.#calls.add(call);
    response.on('close', () => {
      if (tampering !== 'forget-deadline') call.abort();
    });
    const answer = await request(this.#target, {
      method: incoming.method as Dispatcher.HttpMethod,
      headers: body === given ? headersOf(incoming) : await this.#sign(body),
      body: body === '' ? null : body,
      signal: call.signal,
    });
    const answered = await answer.body.text();
    this.#calls.delete(call);
    if (tampering === 'keep-answer') return;
    if (tampering === 'answer-502') return void response.writeHead(502).end('Bad Gateway');
    response.writeHead(answer.statusCode, { 'levelhook-contract': 'v1', 'content-type': 'application/json' });
    response.end(tampering === 'forget-writes' ? withoutWrites(answered) : answered);
  }

  async #sign(body: string): Promise<Record<string, string>> {
    return { ...(await sign([await importSecret(this.#secret)], { id: randomUUID(), nowMs: Date.now(), body })) };
  }
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'content-type'];
  return Object.fromEntries(names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])));
}

function withAnHour(body: string): string {
  const trigger = JSON.parse(body) as Trigger;
  const deadline = new Date(Date.now() + 3_600_000).toISOString();
  return JSON.stringify({ ...trigger, deadline, remainingSeconds: 3600 });
}

function withoutWrites(body: string): string {
  const outcome = JSON.parse(body) as OutcomeBody;
  return JSON.stringify({ ...outcome, results: outcome.results.map((result) => ({ ...result, writes: [] })) });
}
