import { PassThrough, type Readable } from 'node:stream';
import { ApiError } from '../../src/core/index.ts';
import type { ApiClient, ApiRequest } from '../../src/ground/apiserver/api-client.ts';
import type { Lease, LeaseSpec } from '../../src/gateway/election/lease.ts';

export type LeaseVerb = 'get' | 'create' | 'update' | 'watch';

/** One request and its answer, as the network may treat them. */
export interface Passage {
  readonly verb: LeaseVerb;
  /** Lets the request arrive. @throws what the apiserver answers; then nothing changes. */
  arrive(): Promise<unknown>;
}

type Metadata = Lease['metadata'] & Readonly<Record<string, unknown>>;
type StoredLease = Lease & { readonly metadata: Metadata; readonly spec: LeaseSpec };

/** An apiserver with one Lease in memory. Reads, creates and conditional updates answer as a real one. */
export class ModelLease {
  /** Requests that have arrived. */
  readonly requests: LeaseVerb[] = [];
  stored: StoredLease | undefined;
  /** Called after each change. */
  onChange: () => void = () => {};
  readonly #watches = new Set<PassThrough>();
  #version = 0;

  /**
   * @param through what happens to each request: by default it arrives. A promise that does not settle is a lost
   *   request or a lost answer.
   */
  client(through: (passage: Passage) => Promise<unknown> = (passage) => passage.arrive()) {
    const ask = async (request: ApiRequest): Promise<unknown> => {
      const verb = verbOf(request);
      return through({ verb, arrive: async () => this.#answer(verb, request) });
    };
    return { json: ask, stream: ask } as Pick<ApiClient, 'json' | 'stream'>;
  }

  get holder(): string | undefined {
    return this.stored?.spec.holderIdentity;
  }

  /** Another client writes it, or creates it. */
  write(spec: LeaseSpec, metadata: Readonly<Record<string, unknown>> = {}): void {
    this.#version += 1;
    const uid = this.stored?.metadata.uid ?? `uid-${this.#version}`;
    this.stored = { metadata: { ...metadata, uid, resourceVersion: String(this.#version) }, spec };
    this.#changed();
  }

  delete(): void {
    this.stored = undefined;
    this.#changed();
  }

  get watched(): boolean {
    return this.#watches.size > 0;
  }

  #answer(verb: LeaseVerb, { body, signal }: ApiRequest): unknown {
    this.requests.push(verb);
    if (verb === 'watch') return this.#watch(signal);
    const found = this.stored;
    if (verb === 'get') {
      if (!found) throw new ApiError({ code: 404, message: 'not found' });
      return found;
    }
    const { metadata, spec } = body as Lease;
    if (verb === 'create' && found) throw new ApiError({ code: 422, message: 'resourceVersion must be specified' });
    if (verb === 'update' && metadata.resourceVersion !== found?.metadata.resourceVersion) {
      throw new ApiError({ code: 409, message: 'the object has been modified' });
    }
    this.write(spec ?? {}, { ...metadata });
    return this.stored;
  }

  #watch(signal: AbortSignal | undefined): Readable {
    const stream = new PassThrough();
    this.#watches.add(stream);
    stream.once('close', () => this.#watches.delete(stream));
    // Of an answer that was lost: no one reads it.
    stream.on('error', () => {});
    signal?.addEventListener('abort', () => stream.destroy(new Error('aborted')), { once: true });
    if (this.stored) stream.write('{}\n');
    return stream;
  }

  #changed(): void {
    for (const stream of this.#watches) stream.write('{}\n');
    this.onChange();
  }
}

function verbOf({ method, body, query }: ApiRequest): LeaseVerb {
  if (method === 'PUT') return (body as Lease).metadata.resourceVersion === undefined ? 'create' : 'update';
  return query?.['watch'] === true ? 'watch' : 'get';
}
