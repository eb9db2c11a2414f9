/**
 * The published contract (`infra/contract/v1`), made from the schemas with which the gateway decodes. A test compares
 * the files with it; `npm run update-contract` writes them.
 */
import { z } from 'zod';
import { cachePaths, cacheSecurityScheme } from './cache-paths.ts';
import { callbackSchema } from '../../src/contract/callback-schema.ts';
import { descriptionSchema } from '../../src/contract/description-schema.ts';
import { LEVELHOOK_HEADER, RESULT_STREAM } from '../../src/contract/outcome.ts';
import { outcomeSchema, resultLineSchema } from '../../src/contract/outcome-schema.ts';
import { CONTRACT_VERSION } from '../../src/contract/trigger.ts';
import { triggerSchema } from '../../src/contract/trigger-schema.ts';
import { reviewRequestSchema } from '../../src/contract/webhook-schema.ts';

type Json = { [name: string]: unknown };

const SCHEMAS = {
  trigger: triggerSchema,
  outcome: outcomeSchema,
  line: resultLineSchema,
  description: descriptionSchema,
  callback: callbackSchema,
  review: reviewRequestSchema,
};
export type DocumentName = keyof typeof SCHEMAS;

/** File names and contents, in the order in which the README names them. */
export function contractDocuments(): Map<string, Json> {
  const files = new Map<string, Json>();
  for (const name of names()) files.set(`${name}.schema.json`, schemaDocument(name));
  files.set('openapi.json', openApi());
  return files;
}

/**
 * `input`: what a sender has to write. It allows fields that it does not name, as every reader of the contract must.
 * `strict` allows none: for a test that what we send is what is published.
 */
export function jsonSchema(name: DocumentName, form: 'open' | 'strict' = 'open'): Json {
  return z.toJSONSchema(SCHEMAS[name], { io: form === 'open' ? 'input' : 'output' });
}

function names(): DocumentName[] {
  return Object.keys(SCHEMAS) as DocumentName[];
}

function schemaDocument(name: DocumentName): Json {
  const { $schema, ...schema } = jsonSchema(name);
  const title = `levelhook ${name}, contract ${CONTRACT_VERSION}`;
  return { $schema, $id: `https://levelhook.dev/contract/${CONTRACT_VERSION}/${name}.schema.json`, title, ...schema };
}

function openApi(): Json {
  const schemas = Object.assign({}, ...names().map(componentSchemas)) as Json;
  return {
    openapi: '3.1.0',
    info: {
      title: 'A levelhook function',
      version: CONTRACT_VERSION,
      description:
        'What a function answers, and what the gateway takes from the answer. Both requests are signed as Standard ' +
        'Webhooks (v1, HMAC-SHA256 over `id.timestamp.body`). See README.md. The paths below `/api` and `/apis` are those ' +
        "of the gateway's cache, see cache.md.",
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://127.0.0.1:8080', description: 'Wherever the function listens; the path may be any.' }],
    security: [{ signature: [] }],
    paths: {
      '/': {
        parameters: parameters(),
        get: {
          operationId: 'describe',
          summary: 'What controller this function is. The signed body is empty.',
          responses: {
            200: {
              description: 'Its description.',
              content: json('description', ['description', 'description-least']),
            },
            401: refusal('The signature is missing, wrong, or too old.'),
          },
        },
        post: {
          operationId: 'reconcile',
          summary: 'Reconcile some keys before a deadline.',
          parameters: [
            {
              name: 'accept',
              in: 'header',
              required: false,
              description:
                `\`${RESULT_STREAM}, application/json\` when the trigger has several requests: the function may answer ` +
                'with a line for each. It may always send a whole answer.',
              schema: { type: 'string' },
            },
          ],
          requestBody: {
            required: true,
            content: json('trigger', [
              'trigger-first-run',
              'trigger-retry',
              'trigger-batch',
              'trigger-callback',
              'trigger-credentials',
              'trigger-cache',
            ]),
          },
          responses: {
            200: {
              description: 'What became of each key.',
              content: {
                ...json('outcome', [
                  'outcome-done',
                  'outcome-error',
                  'outcome-terminal',
                  'outcome-unknown',
                  'outcome-batch',
                ]),
                ...lines(),
              },
            },
            202: {
              description:
                'Some of the results are `accepted`: those runs go on, and their outcome comes to the callback. Only with the ' +
                `header ${LEVELHOOK_HEADER}, and only to a trigger that names a callback.`,
              headers: ourHeader(),
              content: json('outcome', ['outcome-accepted']),
            },
            400: refusal(
              'Another contract version, or another controller. Unknown to the gateway: counts as a failure.',
            ),
            401: refusal('The signature is missing, wrong, or too old. Nothing was parsed.'),
            409: refusal(
              'A trigger with this `webhook-id` has been here, or its deadline has passed: nothing was run.',
            ),
            410: deferral(
              `Gone for good. With the header ${LEVELHOOK_HEADER}, three times in a row, the circuit breaker opens; the ` +
                'function is tried again from time to time.',
            ),
            413: refusal('The body is larger than the function takes.'),
            429: deferral(`Later, and nothing was done. Only with the header ${LEVELHOOK_HEADER}: it is no failure.`),
            503: deferral(
              `As 429. Without the header ${LEVELHOOK_HEADER} it is a proxy's, and the outcome is unknown.`,
            ),
            default: {
              description:
                'Any other status, a redirect, no answer before the deadline, more than 1 MiB, a body that is not an ' +
                'outcome: the run may still be going on. It counts as a failure, and the key waits for the deadline.',
            },
          },
          callbacks: { outcome: { '{$request.body#/callback/url}': { post: callbackOperation() } } },
        },
      },
      ...cachePaths(),
    },
    components: {
      schemas,
      parameters: {
        'webhook-id': header('webhook-id', 'Unique for each message.'),
        'webhook-timestamp': header(
          'webhook-timestamp',
          'Seconds since the epoch. Refuse one over 300 s off, either way.',
        ),
        'webhook-signature': header(
          'webhook-signature',
          'One `v1,<base64>` for each secret, separated by spaces. One that matches is enough: secrets are rotated.',
        ),
      },
      securitySchemes: {
        cacheToken: cacheSecurityScheme,
        signature: {
          type: 'apiKey',
          in: 'header',
          name: 'webhook-signature',
          description: 'Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks',
        },
      },
    },
  };
}

/**
 * The schema under its name, and those that it refers to beside it: a reference in OpenAPI begins at the whole
 * document.
 */
function componentSchemas(name: DocumentName): Json {
  const { $schema: _, $defs = {}, ...schema } = jsonSchema(name);
  const text = JSON.stringify({ ...($defs as Json), [name]: schema });
  return JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
}

/** What the gateway answers, and what a function does then. */
function callbackOperation(): Json {
  const again = 'Send it again after a while, signed anew.';
  return {
    operationId: 'conclude',
    summary: 'The outcome of a run that went on, or a word that it still does. Signed as the trigger is.',
    parameters: parameters(),
    requestBody: { required: true, content: json('callback', ['callback-done', 'callback-accepted']) },
    responses: {
      200: {
        description: 'Taken.',
        headers: ourHeader(),
        content: {
          'application/json': {
            schema: {
              type: 'object',
              properties: {
                withinSeconds: { type: 'number', description: 'To `accepted`: for so long from now, and no longer.' },
              },
            },
          },
        },
      },
      400: refusal('The body is no callback, or for another controller. Do not send it again.'),
      401: refusal('The signature is missing, wrong, or too old. Sign it anew with another secret, or the right time.'),
      404: refusal('There is no such controller: it was removed, or `url` was changed. Do not send it again.'),
      405: refusal('No POST.'),
      409: refusal('The run is over, and the next one of its key is under way. Stop writing.'),
      410: refusal('The run is over: its outcome has come, its time was up, or Redis has lost it. Stop writing.'),
      413: refusal('More than 1 MiB. Send it without `writes`, or with a shorter message.'),
      503: refusal(`Not now. ${again}`),
      default: {
        description: `An answer without the header ${LEVELHOOK_HEADER}, or none: the outcome is unknown. ${again}`,
      },
    },
  };
}

function parameters(): Json[] {
  return ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
    $ref: `#/components/parameters/${name}`,
  }));
}

function ourHeader(): Json {
  const description = `"${CONTRACT_VERSION}": no proxy's answer.`;
  return { [LEVELHOOK_HEADER]: { description, schema: { type: 'string' } } };
}

function json(schema: DocumentName, examples: readonly string[]): Json {
  const named = examples.map((name) => [name, { externalValue: `./examples/${name}.json` }]);
  return {
    'application/json': {
      schema: { $ref: `#/components/schemas/${schema}` },
      examples: Object.fromEntries(named) as Json,
    },
  };
}

/** OpenAPI 3.1 has no schema for the lines of a body, so the description names the schema. */
function lines(): Json {
  const description =
    'Only when `accept` names it and with the header ' +
    `${LEVELHOOK_HEADER}. One line for each request, in any order; each is JSON as \`#/components/schemas/line\` ` +
    'says, followed by a line feed, and sent when its run has ended. A request without a line at the end of the body ' +
    'has an unknown outcome.';
  const example = { externalValue: './examples/lines-batch.ndjson' };
  return { [RESULT_STREAM]: { schema: { type: 'string', description }, examples: { 'lines-batch': example } } };
}

function header(name: string, description: string): Json {
  return { name, in: 'header', required: true, description, schema: { type: 'string' } };
}

function refusal(description: string): Json {
  const schema = { type: 'object', properties: { error: { type: 'string' } } };
  return { description, content: { 'application/json': { schema } } };
}

function deferral(description: string): Json {
  const string = { schema: { type: 'string' } };
  return {
    description,
    headers: {
      [LEVELHOOK_HEADER]: { description: `"${CONTRACT_VERSION}": the function itself says so.`, ...string },
      'retry-after': {
        description: 'Seconds, or an HTTP date. At least 0.1 s and at most an hour apply; absent: 1 s.',
        ...string,
      },
    },
  };
}
