import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { buffer, json } from 'node:stream/consumers';

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: it is the root of its trace. */
  readonly parentSpanId: string;
  readonly name: string;
  /** Milliseconds since the epoch, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** Texts, and lists of texts separated by commas. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Empty: the span has none. */
  readonly error: string;
  /** The `service.name` of its process. */
  readonly service: string;
}

/** As OTLP has it in JSON. */
interface Exported {
  readonly resourceSpans: readonly {
    readonly resource?: { readonly attributes?: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly ExportedSpan[] }[];
  }[];
}

interface Attribute {
  readonly key: string;
  readonly value: {
    readonly stringValue?: string;
    readonly arrayValue?: { readonly values: readonly { readonly stringValue?: string }[] };
  };
}

interface ExportedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly attributes: readonly Attribute[];
  readonly status?: { readonly message?: string };
}

/** Takes spans by OTLP: as JSON over HTTP, as a gateway sends them, and by gRPC, as kube-apiserver does. */
export class TraceCollector {
  readonly spans: CollectedSpan[] = [];
  readonly #http: Server;
  readonly #grpc: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();

  constructor() {
    this.#http = createServer((request, response) => void this.#take(request, response));
    this.#grpc = createHttp2Server();
    this.#grpc.on('session', (session) => {
      this.#sessions.add(session);
      session.on('close', () => this.#sessions.delete(session));
    });
    this.#grpc.on('stream', (stream) => {
      void buffer(stream).then((body) => {
        // Each message has a byte for its compression, of which there is none, and four for its length.
        this.spans.push(...spansIn(body.subarray(5)));
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end(Buffer.alloc(5));
        return undefined;
      });
    });
  }

  async open(): Promise<void> {
    this.#http.listen(0, '127.0.0.1');
    this.#grpc.listen(0, '127.0.0.1');
    await Promise.all([once(this.#http, 'listening'), once(this.#grpc, 'listening')]);
  }

  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** For the `endpoint` of a TracingConfiguration. */
  get grpcEndpoint(): string {
    return `127.0.0.1:${(this.#grpc.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections();
    for (const session of this.#sessions) session.destroy();
    await Promise.all([this.#http, this.#grpc].map((server) => new Promise((resolve) => server.close(resolve))));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { resourceSpans } = (await json(request)) as Exported;
    for (const { resource, scopeSpans } of resourceSpans) {
      const named = resource?.attributes?.find(({ key }) => key === 'service.name');
      const service = named?.value.stringValue ?? '';
      for (const { spans } of scopeSpans) for (const span of spans) this.spans.push(collected(span, service));
    }
    response.setHeader('content-type', 'application/json').end('{}');
  }
}

function collected(span: ExportedSpan, service: string): CollectedSpan {
  const { traceId, spanId, parentSpanId = '', name, startTimeUnixNano, endTimeUnixNano, links = [] } = span;
  const [startMs, endMs] = [millisecondsOf(BigInt(startTimeUnixNano)), millisecondsOf(BigInt(endTimeUnixNano))];
  const attributes = Object.fromEntries(span.attributes.map(({ key, value }) => [key, textOf(value)]));
  const error = span.status?.message ?? '';
  return { traceId, spanId, parentSpanId, name, startMs, endMs, links, attributes, error, service };
}

function textOf({ stringValue, arrayValue }: Attribute['value']): string {
  return stringValue ?? arrayValue?.values.map((value) => value.stringValue).join(', ') ?? '';
}

/** The spans of an ExportTraceServiceRequest (opentelemetry/proto/trace/v1/trace.proto). */
function spansIn(request: Buffer): CollectedSpan[] {
  return fieldsOf(request, 1).flatMap((resourceSpans) => {
    const resources = fieldsOf(resourceSpans, 1).map((resource) => attributesIn(resource, 1));
    const service = resources[0]?.['service.name'] ?? '';
    return fieldsOf(resourceSpans, 2)
      .flatMap((scopeSpans) => fieldsOf(scopeSpans, 2))
      .map((span) => ({
        ...spanContextOf(span),
        parentSpanId: hex(span, 4),
        name: text(span, 5),
        startMs: milliseconds(span, 7),
        endMs: milliseconds(span, 8),
        links: fieldsOf(span, 13).map(spanContextOf),
        attributes: attributesIn(span, 9),
        error: text(fieldsOf(span, 15)[0] ?? Buffer.of(), 2),
        service,
      }));
  });
}

function attributesIn(message: Buffer, field: number): Readonly<Record<string, string>> {
  const pairs = fieldsOf(message, field).map((pair) => [text(pair, 1), text(fieldsOf(pair, 2)[0] ?? Buffer.of(), 1)]);
  return Object.fromEntries(pairs) as Readonly<Record<string, string>>;
}

/** Spans and links begin with the same two fields. */
function spanContextOf(message: Buffer): { traceId: string; spanId: string } {
  return { traceId: hex(message, 1), spanId: hex(message, 2) };
}

function hex(message: Buffer, field: number): string {
  return fieldsOf(message, field)[0]?.toString('hex') ?? '';
}

function text(message: Buffer, field: number): string {
  return fieldsOf(message, field)[0]?.toString('utf8') ?? '';
}

function milliseconds(message: Buffer, field: number): number {
  return millisecondsOf(fieldsOf(message, field)[0]?.readBigUInt64LE() ?? 0n);
}

/** With three digits of a fraction: a number has no more for a time of today. */
function millisecondsOf(nanoseconds: bigint): number {
  return Number(nanoseconds / 1000n) / 1000;
}

/** The values of one field of a protobuf message: bytes, or the 8 or 4 bytes of a fixed number. */
function fieldsOf(message: Buffer, wanted: number): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; at < message.length; shift += 7) {
      const byte = message[at] ?? 0;
      at += 1;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < message.length) {
    const tag = varint();
    const type = tag & 7;
    if (type === 0) {
      varint();
      continue;
    }
    const length = type === 1 ? 8 : type === 5 ? 4 : varint();
    if (tag >>> 3 === wanted) found.push(message.subarray(at, at + length));
    at += length;
  }
  return found;
}
