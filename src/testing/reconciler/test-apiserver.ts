import { systemClock } from '../../core/index.ts';
import type { ApiTransport, ApiTransportAnswer, ApiTransportRequest } from '../../function/api-transport.ts';
import { type ApiserverRequest, parseRequest } from './request.ts';
import { answerOf, type FakeApiFailure } from './fake-api-error.ts';

/** A request, and its result. */
export interface RecordedRequest extends ApiserverRequest {
  /** The HTTP status of the answer. Absent when it got no answer. */
  readonly status?: number;
}

/**
 * A failure that a test injects: a refusal, or a missing answer after the request was executed (`answer-lost`) or
 * before it arrived (`request-lost`).
 */
export type Fault = FakeApiFailure | 'answer-lost' | 'request-lost';

/** Matches requests with all of these fields. For a create, `name` is the name in its body. */
export type RequestPattern = Partial<Omit<ApiserverRequest, 'body'>>;

/**
 * The apiserver of a reconciler under test, real or in memory. It records requests, and fails where a test asks for it.
 */
export abstract class TestApiserver {
  readonly #requests: RecordedRequest[] = [];
  readonly #faults: { readonly of: RequestPattern; readonly fault: Fault; times: number }[] = [];

  /** Called for each request first. Default: no faults. */
  intercept: (request: ApiserverRequest) => Fault | undefined = () => undefined;

  /** Answers without recording or faults: for the test's own writes and reads. */
  abstract readonly direct: ApiTransport;

  /** The transport for the function under test: `createFunctionApp`'s `api`, or an `ApiWriter`'s transport. */
  readonly transport: ApiTransport = (request) => this.#answer(request);

  /** Every request in order, reads included. Reads of the cache are not requests. */
  get requests(): readonly RecordedRequest[] {
    return this.#requests;
  }

  /** The requests that change objects, including refused ones: see their `status`. */
  get writes(): readonly RecordedRequest[] {
    return this.#requests.filter(({ verb }) => verb !== 'get' && verb !== 'list');
  }

  /** Forgets the requests so far. */
  clearRequests(): void {
    this.#requests.length = 0;
  }

  /**
   * Injects a fault into the next matching request: `fail({ verb: 'update' }, { code: 409 })`.
   * @param times the number of requests. Default 1.
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
