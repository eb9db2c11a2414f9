import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/**
 * The program of the platform `aws-lambda`: a function URL, or an API Gateway HTTP API, before one instance of a
 * function. Its argument is the bundle with `handler`. It makes an event of each request (payload format 2.0), and a
 * response of what the handler returns. `LAMBDA_FRONT` is `url` or `api`. SIGUSR2 loses the next answer to a POST: the
 * connection is closed when the handler has returned.
 */
type Handler = (event: object, context: object) => Promise<Result>;

interface Result {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly isBase64Encoded: boolean;
}

const [, , bundle = ''] = process.argv;
const { handler } = (await import(bundle)) as { handler: Handler };
const isApi = process.env['LAMBDA_FRONT'] === 'api';
let losesNext = false;
process.on('SIGUSR2', () => {
  losesNext = true;
});

function eventOf({ method = '', url = '/', headers }: IncomingMessage, body: string): object {
  const { pathname, search } = new URL(url, 'http://localhost');
  const domainName = `${isApi ? 'api.execute-api' : 'function.lambda-url'}.eu-central-1.example.com`;
  const now = new Date();
  return {
    version: '2.0',
    routeKey: isApi ? 'ANY /' : '$default',
    rawPath: pathname,
    rawQueryString: search.slice(1),
    headers: { ...headers, host: domainName, 'x-forwarded-proto': 'https', 'x-forwarded-port': '443' },
    requestContext: {
      accountId: isApi ? '123456789012' : 'anonymous',
      apiId: 'abcdefghij',
      domainName,
      domainPrefix: domainName.split('.', 1)[0],
      http: {
        method,
        path: pathname,
        protocol: 'HTTP/1.1',
        sourceIp: '127.0.0.1',
        userAgent: headers['user-agent'] ?? '',
      },
      requestId: randomUUID(),
      routeKey: isApi ? 'ANY /' : '$default',
      stage: '$default',
      time: now.toISOString(),
      timeEpoch: now.getTime(),
    },
    ...(body === '' ? {} : { body }),
    isBase64Encoded: false,
  };
}

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const event = eventOf(incoming, await text(incoming));
  const { statusCode, headers, body, isBase64Encoded } = await handler(event, { awsRequestId: randomUUID() });
  if (losesNext && incoming.method === 'POST') {
    losesNext = false;
    process.stdout.write(`${JSON.stringify({ msg: 'answer lost', statusCode })}\n`);
    incoming.socket.destroy();
    return;
  }
  outgoing.writeHead(statusCode, headers).end(isBase64Encoded ? Buffer.from(body, 'base64') : body);
}

const server = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    // What the platform answers when the handler throws.
    outgoing.writeHead(502).end('{"message":"Internal Server Error"}');
  });
});
server.keepAliveTimeout = 75_000;
server.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${port}` })}\n`);
});
