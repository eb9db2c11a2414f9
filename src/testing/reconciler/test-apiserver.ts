import { systemClock } from '../../core/index.ts';
import type { ApiTransport, ApiTransportAnswer, ApiTransportRequest } from '../../function/api-transport.ts';
import { type ApiserverRequest, parseRequest } from './request.ts';
import { answerOf, type FakeApiFailure } from './fake-api-error.ts';

/** A request that was made, and what became of it. */
export interface RecordedRequest extends ApiserverRequest {
  /** The HTTP status that it was answered with. Absent when it got no answer. */
  readonly status?: number;
}

/**
 * What a test does to a request in place of the apiserver: refuse it, or let no answer come: though it was carried out
 * (`answer-lost`), or since it never arrived (`request-lost`).
 */
export type Fault = FakeApiFailure | 'answer-lost' | 'request-lost';

/** Which requests are meant: those that have all of these. A `name` of a create is the one in its body. */
export type RequestPattern = Partial<Omit<ApiserverRequest, 'body'>>;

/**
 * An apiserver under a reconciler under test: real or in memory. Keeps what was asked of it, and fails where a test
 * wants it to.
 */
export abstract class TestApiserver {
  readonly #requests: RecordedRequest[] = [];
  readonly #faults: { readonly of: RequestPattern; readonly fault: Fault; times: number }[] = [];

  /** Asked about each request first. Default: nothing happens to it. */
  intercept: (request: ApiserverRequest) => Fault | undefined = () => undefined;

  /** Answers without a record, and without faults: for what the test itself does and reads. */
  abstract readonly direct: ApiTransport;

  /** What the function under test is given: `createFunctionApp`'s `api`, or an `ApiWriter`'s transport. */
  readonly transport: ApiTransport = (request) => this.#answer(request);

  /** Every request, reads included, in the order in which they were made. Reads of the cache are none. */
  get requests(): readonly RecordedRequest[] {
    return this.#requests;
  }

  /** The requests that change something, the refused ones included: see their `status`. */
  get writes(): readonly RecordedRequest[] {
    return this.#requests.filter(({ verb }) => verb !== 'get' && verb !== 'list');
  }

  /** Forgets the requests so far. */
  clearRequests(): void {
    this.#requests.length = 0;
  }

  /**
   * The next request that fits meets this fault: `fail({ verb: 'update' }, { code: 409 })`.
   * @param times how many requests it is for. Default 1.
   */
  fail(of: RequestPattern, fault: Fault, times = 1): void {
    this.#faults.push({ of, fault, times });
  }

  async #answer(request: ApiTransportRequest): Promise<ApiTransportAnswer> {
    const { contentType: _, query: __, metadataOnly: ___, ...parsed } = parseRequest(request);
    const record: ApiserverRequest & { status?: number } = structuredClone(parsed);
    this.#requests.push(record);
    // As over a network: several requests are under way at a time.
    await systemClock.sleep(0);
    request.signal.throwIfAborted();
    const fault = this.intercept(parsed) ?? this.#faultFor(parsed);
    if (fault === 'request-lost') throw new Error('the test lost the request');
    if (typeof fault === 'object') {
      record.status = fault.code;
      return answerOf(fault);
    }
    const answer = await this.direct(request);
    if (fault === 'answer-lost') throw new Error('the test lost the answer');
    record.status = answer.status;
    return answer;
  }

  #faultFor(request: ApiserverRequest): Fault | undefined {
    const fits = (of: RequestPattern): boolean =>
      Object.entries(of).every(([name, value]) => request[name as keyof ApiserverRequest] === value);
    const found = this.#faults.find(({ of, times }) => times > 0 && fits(of));
    if (found) found.times -= 1;
    return found?.fault;
  }
}
