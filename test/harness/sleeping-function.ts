import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { CONTRACT_VERSION, type Description, LEVELHOOK_HEADER, type Trigger } from '../../src/contract/index.ts';
import { freePort } from '../../src/testing/process/free-port.ts';
import { LoopbackServer } from './loopback-server.ts';

/** What a platform does with a request while the function behind it is scaled to zero: refuse, or answer itself. */
export type Asleep = 'refused' | 502 | 503 | 504;

/** A function behind a platform that scales it to zero. It counts all requests, and wakes when a test says so. */
export class SleepingFunction extends LoopbackServer {
  /** Each request since the last `forget`: `GET`, or `POST` with the key and the attempt of its first run. */
  requests: string[] = [];
  readonly #asleep: Asleep;
  readonly #description: Description;
  #isAwake = true;

  constructor(description: Pick<Description, 'name' | 'for'> & Partial<Description>, asleep: Asleep) {
    super(createServer());
    this.#asleep = asleep;
    const rest = { concurrency: 2, timeoutSeconds: 15, owns: [], watches: [], reads: [], indexes: [] };
    this.#description = { version: CONTRACT_VERSION, ...rest, ...description };
    this.answerBy((request, response) => this.#answer(request, response));
  }

  /** At a port that no server gets which listens at port 0, since this one gives its port up while it sleeps. */
  override async open(): Promise<void> {
    await super.open(this.port || (await freePort()));
  }

  async sleep(): Promise<void> {
    this.#isAwake = false;
    if (this.#asleep === 'refused') await this.close();
  }

  async wake(): Promise<void> {
    this.#isAwake = true;
    if (!this.isOpen) await this.open();
  }

  forget(): void {
    this.requests = [];
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const [run] = body ? (JSON.parse(body) as Trigger).requests : [];
    this.requests.push(run ? `POST ${run.name} ${run.attempt}` : String(request.method));
    if (!this.#isAwake) return void response.writeHead(Number(this.#asleep)).end();
    response.setHeader(LEVELHOOK_HEADER, CONTRACT_VERSION);
    const results = [{ status: 'done' }];
    response.end(JSON.stringify(run ? { version: CONTRACT_VERSION, results } : this.#description));
  }
}
