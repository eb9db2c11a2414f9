import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { CONTRACT_VERSION, type Description, type OutcomeBody, type Trigger } from '../../src/contract/index.ts';
import { LoopbackServer } from './loopback-server.ts';
import type { Line } from './process.ts';

/** What a function may do with a trigger: answer, badly or well, or leave it. */
export type Behaviour = (response: ServerResponse, request: IncomingMessage) => void;

/** A trigger as it arrived. */
export interface Arrival {
  readonly key: string;
  readonly attempt: number;
}

/** A well-behaved answer. */
export const done: Behaviour = (response) => {
  const body: OutcomeBody = { version: CONTRACT_VERSION, results: [{ status: 'done' }] };
  response.end(JSON.stringify(body));
};

/**
 * A function without the SDK, which does what a test tells it to, for each key. It describes itself as it should, and
 * trusts every caller.
 */
export class RawFunction extends LoopbackServer {
  readonly arrivals: Arrival[] = [];
  /** How triggers end of which `behave` says nothing. */
  otherwise: Behaviour = done;
  /** Given all triggers, when it is set, instead of what is said for their objects. */
  onTrigger: ((trigger: Trigger, response: ServerResponse) => void) | undefined;
  readonly #description: Description;
  readonly #behaviour = new Map<string, Behaviour>();

  constructor(
    description: Omit<Description, 'version' | 'owns' | 'watches' | 'reads' | 'indexes'> & Partial<Description>,
  ) {
    super(createServer());
    this.answerBy((request, response) => this.#answer(request, response));
    this.#description = { version: CONTRACT_VERSION, owns: [], watches: [], reads: [], indexes: [], ...description };
  }

  /** How triggers for the object of this name end from now on. Default: `otherwise`. */
  behave(name: string, behaviour: Behaviour): void {
    this.#behaviour.set(name, behaviour);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    response.setHeader('content-type', 'application/json');
    if (request.method === 'GET') {
      response.end(JSON.stringify(this.#description));
      return;
    }
    const trigger = JSON.parse(body) as Trigger;
    const { name = '', attempt = 0 } = trigger.requests[0] ?? {};
    this.arrivals.push({ key: name, attempt });
    if (this.onTrigger) return this.onTrigger(trigger, response);
    (this.#behaviour.get(name) ?? this.otherwise)(response, request);
  }
}

/** The gateway's log lines about one object's runs: triggers, and runs whose deadline has passed. */
export function linesAbout(lines: readonly Line[], { namespace, name }: { namespace: string; name: string }): Line[] {
  return lines.filter(({ key }) => key === `${namespace}/${name}`);
}
