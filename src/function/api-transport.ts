/** One request to the apiserver. The transport adds the credentials. */
export interface ApiTransportRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  readonly contentType?: string;
  /** Media types of the answer, all of them JSON. Default `application/json`. */
  readonly accept?: string;
  readonly body?: string;
  /** The header of this name, by which the apiserver's spans join a trace. Default: none. */
  readonly traceparent?: string | undefined;
  readonly signal: AbortSignal;
}

export interface ApiTransportAnswer {
  readonly status: number;
  readonly body: string;
  readonly retryAfter?: string | null;
}

/** Sends requests to one apiserver with the function's own credentials. Rejects only when there was no answer. */
export type ApiTransport = (request: ApiTransportRequest) => Promise<ApiTransportAnswer>;
