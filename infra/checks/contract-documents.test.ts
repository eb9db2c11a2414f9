import { once } from 'node:events';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { resource, silentLogger, silentMetrics, systemClock } from '../../src/core/index.ts';
import {
  decodeTrigger,
  generateSecret,
  importSecret,
  LEVELHOOK_HEADER,
  RESULT_STREAM,
  verify,
} from '../../src/contract/index.ts';
import { importExtractableSecret } from '../../src/contract/signature.ts';
import { decodeReviewRequest } from '../../src/contract/webhook.ts';
import { descriptionSchema } from '../../src/contract/description-schema.ts';
import { callbackSchema } from '../../src/contract/callback-schema.ts';
import { decodeResultLine, outcomeSchema, resultLineSchema } from '../../src/contract/outcome-schema.ts';
import { complete, heartbeat, type RunToken } from '../../src/function/callback.ts';
import { controller, createFunctionApp } from '../../src/function/index.ts';
import { describeFunction } from '../../src/gateway/controller/endpoint/describe.ts';
import { CacheAccess } from '../../src/gateway/controller/access/cache-access.ts';
import { TriggerTokens } from '../../src/gateway/controller/access/trigger-tokens.ts';
import { Dispatcher } from '../../src/gateway/controller/dispatch/dispatcher.ts';
import { Endpoint } from '../../src/gateway/controller/endpoint/endpoint.ts';
import { contractDocuments, type DocumentName, jsonSchema } from './contract-documents.ts';
import { repositoryRoot } from './temp-repository.ts';
import { ownBounds } from '../../test/harness/own-bounds.ts';

const folder = join(repositoryRoot, 'infra/contract/v1');
const read = (path: string): unknown => JSON.parse(readFileSync(join(folder, path), 'utf8'));
const ajv = new Ajv2020({ formats: { 'date-time': true }, strict: true });

/** `trigger-retry.json` is a trigger; every example but the signed request is named so. */
const examples = globSync('*.json', { cwd: join(folder, 'examples') })
  .filter((file) => file !== 'signed-request.json')
  .map((file) => ({ file, kind: basename(file, '.json').split('-')[0] as DocumentName }));

/** The verdict of the code that runs in gateway and functions. */
const code: Record<DocumentName, (value: unknown) => boolean> = {
  trigger: (value) => {
    try {
      decodeTrigger(JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
  outcome: (value) => outcomeSchema.safeParse(value).success,
  // The gateway makes an error of a result that is wrong in part.
  line: (value) => {
    const line = decodeResultLine(JSON.stringify(value));
    return line !== undefined && !(line.result instanceof TypeError) && resultLineSchema.safeParse(value).success;
  },
  description: (value) => descriptionSchema.safeParse(value).success,
  callback: (value) => callbackSchema.safeParse(value).success,
  review: (value) => {
    try {
      decodeReviewRequest(value);
      return true;
    } catch {
      return false;
    }
  },
};

const published: Record<DocumentName, ValidateFunction> = {
  trigger: ajv.compile(jsonSchema('trigger')),
  outcome: ajv.compile(jsonSchema('outcome')),
  line: ajv.compile(jsonSchema('line')),
  description: ajv.compile(jsonSchema('description')),
  callback: ajv.compile(jsonSchema('callback')),
  review: ajv.compile(jsonSchema('review')),
};

describe('the published contract', () => {
  it.each([...contractDocuments()])('%s says what the code does (UPDATE_CONTRACT=1 writes it)', (file, document) => {
    const path = join(folder, file);
    if (process.env['UPDATE_CONTRACT'] === '1') writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`);
    expect(document).toEqual(read(file));
  });

  it('is OpenAPI 3.1, and its examples are there', async () => {
    const document = contractDocuments().get('openapi.json');
    expect(await new Validator().validate(structuredClone(document) ?? {})).toMatchObject({ valid: true });
    const named = [...JSON.stringify(document).matchAll(/"externalValue":"(.*?)"/g)].map(([, path = '']) => path);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((path) => !existsSync(join(folder, path)))).toEqual([]);
  });

  it.each(examples)('$file is a $kind, by the schema and by the code', ({ file, kind }) => {
    const value = read(`examples/${file}`);
    published[kind](value);
    expect(published[kind].errors ?? []).toEqual([]);
    expect(code[kind](value)).toBe(true);
  });

  it('lines-batch.ndjson has a line for each request of trigger-batch.json', () => {
    const { requests } = decodeTrigger(readFileSync(join(folder, 'examples/trigger-batch.json'), 'utf8'));
    const lines = readFileSync(join(folder, 'examples/lines-batch.ndjson'), 'utf8').split('\n');
    expect(lines.pop()).toBe('');
    for (const line of lines) {
      expect(published.line(JSON.parse(line)), line).toBe(true);
      expect(decodeResultLine(line), line).toEqual(JSON.parse(line));
    }
    const runs = lines.map((line) => decodeResultLine(line)?.run ?? 0);
    expect(runs.toSorted((a, b) => a - b)).toEqual(requests.map(({ run }) => run));
  });

  it('has a signed request that verifies with each of its secrets', async () => {
    const request = z
      .object({ secrets: z.array(z.string()), headers: z.record(z.string(), z.string()), body: z.string() })
      .parse(read('examples/signed-request.json'));
    expect(request.secrets).toHaveLength(2);
    const headers = new Headers(request.headers);
    const nowMs = Number(headers.get('webhook-timestamp')) * 1000;
    for (const secret of request.secrets) {
      await verify([await importSecret(secret)], { headers, nowMs, body: request.body });
    }
    expect(published.trigger(JSON.parse(request.body))).toBe(true);
  });
});

describe('what gateway and SDK send', () => {
  const strictly = (name: DocumentName, value: unknown): unknown => {
    const validate = ajv.compile(jsonSchema(name, 'strict'));
    validate(value);
    return validate.errors ?? [];
  };

  it('is what is published, and no field more', async () => {
    const secret = generateSecret();
    const keys = [await importExtractableSecret(secret)];
    const pods = resource('v1', 'Pod');
    const tokens: RunToken[] = [];
    const declared = { name: 'web', for: pods, timeoutSeconds: 5, maxBatch: 10, callbackSeconds: 600 };
    const web = controller(declared).reconcile(async ({ name }, { api, runToken }) => {
      if (runToken) tokens.push(runToken);
      if (name === 'c') return { completesWithinSeconds: 60 };
      await api.create(pods, { metadata: { namespace: 'a', name: 'x' } });
      return { requeueAfterSeconds: 5 };
    });
    const app = createFunctionApp(web, {
      secrets: [secret],
      cache: () => ({
        get: async () => undefined,
        list: async () => ({ items: [], version: '1' }),
        secondsUnchanged: async () => undefined,
      }),
      api: async () => ({ status: 201, body: '{"metadata":{"name":"x","uid":"u","resourceVersion":"5"}}' }),
    });
    const bodies: { given: string; answered: string; type: string | null }[] = [];
    const server = createServer((incoming, response) => {
      void (async () => {
        const given = await text(incoming);
        const init = { method: incoming.method ?? '', headers: incoming.headers as Record<string, string> };
        const answer = await app.request('/', { ...init, ...(given === '' ? {} : { body: given }) });
        bodies.push({ given, answered: await answer.text(), type: answer.headers.get('content-type') });
        response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(bodies.at(-1)?.answered);
      })();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const endpoint = new Endpoint(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys, {
      connections: 1,
    });
    try {
      const runtime = { clock: systemClock, logger: silentLogger, metrics: silentMetrics };
      const tokens = new TriggerTokens({
        controller: 'web',
        declaration: 'd',
        keys: { sign: () => 'a.b.c' },
        goOn: true,
        clock: systemClock,
      });
      const cacheAccess = new CacheAccess({
        views: [],
        api: { url: 'https://gateway.example.com/cache', tokens },
        clock: systemClock,
      });
      const location = () => ({ url: 'https://gateway.example.com/x', token: 't', maxSeconds: 600 });
      const callback = { maxSeconds: 600, location };
      const target = { endpoint, cacheAccess, callback };
      const starts = { keys: { allow() {} }, ending: new AbortController().signal };
      const own = { controller: 'web', views: [], starts, settings: { logTriggers: false, startWindowMs: 0 } };
      const dispatcher = new Dispatcher({ ...own, target, bounds: ownBounds(), runtime });
      const reasons = [
        { type: 'manual' as const, message: 'm' },
        { type: 'updated' as const, object: 'v1/Pod a/b' },
      ];
      const run = { key: 'a/b', run: 7, incarnation: 'i', failures: 2, reasons, deadlineMs: Date.now() + 5000 };
      const finishes = await Promise.all(dispatcher.run([run, { ...run, key: 'a/c', run: 8 }]));
      expect(finishes).toMatchObject([{ kind: 'ended', againAfterMs: 5000 }, { kind: 'accepted' }]);
      expect(await describeFunction(endpoint)).toMatchObject({ name: 'web' });
    } finally {
      await endpoint.close();
      server.close();
    }
    const callbacks: unknown[] = [];
    const post = async (_url: unknown, init?: RequestInit): Promise<Response> => {
      callbacks.push(JSON.parse(init?.body as string));
      return new Response('{"withinSeconds":30}', { headers: { [LEVELHOOK_HEADER]: 'v1' } });
    };
    const [token] = tokens;
    if (!token) throw new Error('no run token');
    const api = async () => ({ status: 500, body: '' });
    const run = await heartbeat(token, { secrets: [secret], fetch: post, withinSeconds: 60, api });
    // It is of two clocks, which count milliseconds from different moments.
    expect(run.deadlineMs).toBeLessThanOrEqual(Date.now() + 30_001);
    await run.complete({ status: 'error', message: 'm', retryAfterSeconds: 5 });
    await complete(token, { status: 'done', requeueAfterSeconds: 5 }, { secrets: [secret], fetch: post });
    expect(callbacks).toHaveLength(3);
    for (const each of callbacks) expect(strictly('callback', each)).toEqual([]);
    const [trigger, description] = bodies;
    const answered = trigger?.answered.trim().split('\n') ?? [];
    expect(strictly('trigger', JSON.parse(trigger?.given ?? ''))).toEqual([]);
    // A gateway that does not ask for lines gets a whole answer.
    const form = trigger?.type === RESULT_STREAM ? 'line' : 'outcome';
    expect(answered).toHaveLength(form === 'line' ? 2 : 1);
    for (const each of answered) expect(strictly(form, JSON.parse(each))).toEqual([]);
    expect(strictly('description', JSON.parse(description?.answered ?? ''))).toEqual([]);
    expect(strictly('trigger', { ...(JSON.parse(trigger?.given ?? '') as object), more: 1 })).not.toEqual([]);
  });
});

describe('the schemas and the code', () => {
  const wrong = fc.oneof(
    fc.constantFrom<unknown>(
      undefined,
      null,
      '',
      'x',
      '.',
      '..',
      '...',
      '.x',
      'v2',
      0,
      -1,
      1.5,
      1e9,
      true,
      false,
      [],
      {},
      [{}],
    ),
    fc.jsonValue(),
  );
  const damage = fc.record({ at: fc.nat(), to: wrong });

  it.each(examples.filter(({ kind }) => kind !== 'trigger' && kind !== 'review'))(
    'agree on $file, however it is damaged',
    ({ file, kind }) => {
      fc.assert(
        fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
          const value = damages.reduce((each, { at, to }) => replaced(each, at, to), read(`examples/${file}`));
          expect(code[kind](value), JSON.stringify(value)).toBe(published[kind](value));
        }),
        { numRuns: 1000 },
      );
    },
  );

  it('agree that a function takes every trigger that the schema allows', () => {
    fc.assert(
      fc.property(fc.constantFrom('first-run', 'retry'), fc.array(damage), (name, damages) => {
        const value = damages.reduce(
          (each, { at, to }) => replaced(each, at, to),
          read(`examples/trigger-${name}.json`),
        );
        if (published.trigger(value)) expect(code.trigger(value), JSON.stringify(value)).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  it('agree that a function takes every review that the schema allows', () => {
    fc.assert(
      fc.property(fc.array(damage), (damages) => {
        const example = read('examples/review-validating.json');
        const value = damages.reduce((each, { at, to }) => replaced(each, at, to), example);
        if (published.review(value)) expect(code.review(value), JSON.stringify(value)).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });
});

/** A copy with its `at`th value, in order of depth first, replaced; or taken away, by undefined. */
function replaced(value: unknown, at: number, to: unknown): unknown {
  const places: { parent: Record<string, unknown>; name: string }[] = [];
  const copy = structuredClone(value);
  const walk = (parent: unknown): void => {
    if (typeof parent !== 'object' || parent === null) return;
    for (const name of Object.keys(parent)) {
      places.push({ parent: parent as Record<string, unknown>, name });
      walk((parent as Record<string, unknown>)[name]);
    }
  };
  walk(copy);
  const place = places[at % Math.max(places.length, 1)];
  if (place) place.parent[place.name] = to;
  // As it would travel: an absent field, not an undefined one.
  return JSON.parse(JSON.stringify(copy)) as unknown;
}
