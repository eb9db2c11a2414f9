import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { boundedText, type GroupVersionKind } from '../../src/core/index.ts';
import {
  type CallbackBody,
  decodeTrigger,
  type Description,
  LEVELHOOK_HEADER,
  type OutcomeBody,
  type Predicate,
  type RequestResult,
  type ResultLine,
  type WebhookDescription,
} from '../../src/contract/index.ts';
import { decodeReviewRequest } from '../../src/contract/webhook.ts';
import { MAPPER_VARIABLES, parseExpression } from '../../src/gateway/controller/cel/parse-expression.ts';
import { checkSources } from '../../src/gateway/controller/handlers/check-sources.ts';
import { keyBackoffMs } from '../../src/gateway/controller/workqueue/rate-limiter.ts';
import type { Finish } from '../../src/gateway/controller/workqueue/work-queue.ts';
import { listRequest } from '../../src/gateway/http/cache-api/list-options.ts';
import { answeredReview } from '../../src/gateway/http/webhooks/review-answer.ts';
import { readBody } from '../../src/gateway/http/write-proxy/bodies.ts';
import { proxiedRequest } from '../../src/gateway/http/write-proxy/proxied-request.ts';
import { requestOptions } from '../../src/gateway/http/write-proxy/request-options.ts';
import { decodeSpec, type ReconcileFunction } from '../../src/gateway/registration/reconcile-function.ts';
import { ownBounds } from '../../test/harness/own-bounds.ts';
import { type AcceptedDocument, acceptedDocuments, UnreachedBounds, writtenOut } from './accepted-documents.ts';
import { AcceptingGateway, withTime } from './accepting-gateway.ts';
import { repositoryRoot } from './temp-repository.ts';

const CONTRACT = join(repositoryRoot, 'infra/contract/v1');
const DEFINITION = 'levelhook.dev_reconcilefunctions.yaml';
const KIB = 1024;
const MIB = 1024 * KIB;

const documents = acceptedDocuments(join(CONTRACT, 'accepted'));
const released = acceptedDocuments(join(CONTRACT, 'released/accepted'));
const LISTS: object = { owns: [], watches: [], reads: [] };
const titled = (all: readonly AcceptedDocument[]) => all.map((each) => [each.name, each] as const);

/** The kinds of documents with a schema of their own. */
const WITH_SCHEMA = ['callback', 'description', 'line', 'outcome', 'review', 'trigger'];
const schemaOf = (folder: string, kind: string): object =>
  JSON.parse(readFileSync(join(folder, `${kind}.schema.json`), 'utf8')) as object;

function specSchema(path: string): object {
  const { spec } = parse(readFileSync(path, 'utf8')) as {
    spec: { versions: { schema: { openAPIV3Schema: object } }[] };
  };
  return spec.versions[0]?.schema.openAPIV3Schema ?? {};
}

/** The schemas of a folder of the contract, and of its definition of ReconcileFunctions. */
function validators(folder: string, definition: string): Map<string, ValidateFunction> {
  const ajv = new Ajv2020({ formats: { 'date-time': true, int64: true }, strict: false });
  const compiled = WITH_SCHEMA.map((kind) => [kind, ajv.compile(schemaOf(folder, kind))] as const);
  return new Map([...compiled, ['reconcilefunction', ajv.compile(specSchema(definition))]]);
}

describe('the documents at the limits of the contract', () => {
  it('are of each kind of body that has limits', () => {
    const others = ['cache', 'reconcilefunction', 'stream', 'verdict', 'write'];
    expect([...new Set(documents.map(({ kind }) => kind))].toSorted()).toEqual([...others, ...WITH_SCHEMA].toSorted());
    expect(new Set(documents.map(({ name }) => name)).size).toBe(documents.length);
  });

  it.each(titled(released))('are kept as the last release has them: %s', (name, { value }) => {
    expect(documents.find((each) => each.name === name)?.value).toEqual(value);
  });

  it.each([
    ['today', documents, CONTRACT, join(repositoryRoot, 'infra/crds', DEFINITION)],
    ['of the last release', released, join(CONTRACT, 'released'), join(CONTRACT, 'released', DEFINITION)],
  ] as const)('are accepted by the schemas %s', (_, accepted, folder, definition) => {
    const schemas = validators(folder, definition);
    const withSchema = accepted.filter(({ kind }) => schemas.has(kind));
    const refused = withSchema.flatMap(({ kind, name, value }) => {
      const validate = schemas.get(kind);
      return validate?.(value) ? [] : [{ name, errors: validate?.errors }];
    });
    expect(refused).toEqual([]);
    expect(withSchema.length).toBeGreaterThan(50);
  });

  it('reach each bound and each fixed value of the schemas of what a gateway reads', () => {
    const unreached = new UnreachedBounds();
    for (const kind of ['callback', 'description', 'line', 'outcome']) {
      const values = documents.filter((each) => each.kind === kind).map(({ value }) => value);
      unreached.add(schemaOf(CONTRACT, kind) as never, values);
    }
    // A predicate that combines others counts as one of the 32.
    expect(unreached.list).toEqual(['all: maxItems 32', 'any: maxItems 32']);
    expect(unreached.count).toBeGreaterThan(100);
  });

  it.each(titled(documents.filter(({ name }) => sizeIn(name) > 0)))(
    'are as large as they say: %s',
    (name, { kind, value }) => {
      const { body, results, spec } = value as { body?: unknown; results?: { related?: unknown }[]; spec?: unknown };
      const parts =
        kind === 'stream'
          ? (value as unknown[]).flatMap((line) => [line, 0])
          : [results?.[0]?.related ?? spec ?? body ?? value];
      expect(parts.reduce<number>((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)), 0)).toBe(sizeIn(name));
    },
  );

  it.each<[string, number, (description: Description) => number]>([
    ['description-sources: 32 kinds in all fields together', 32, (of) => sourcesOf(of).length + of.reads.length],
    ['description-predicates: 32 predicates in one, with all', 32, (of) => partsOf(of.for.predicate).nodes],
    ['description-predicates: 32 predicates in one, with any', 32, (of) => partsOf(of.for.predicate).nodes],
    ['description-predicates: 64 predicates that combine no others', 64, (of) => leavesOf(of)],
    ['description-predicates: each predicate at each of four levels', 4, (of) => partsOf(of.for.predicate).levels],
    ['description-expressions: 16 expressions', 16, (of) => of.watches.filter(({ map }) => map.by === 'cel').length],
    ['description-expressions: 32 nested brackets, 31 operators before a value, 500 operations', 500, operationsOf],
  ])('have as many parts as they say: %s', (name, count, countOf) => {
    const { value } = documents.find((each) => each.name === name) ?? {};
    expect(countOf({ ...LISTS, ...(value as Description) })).toBe(count);
  });
});

describe('a gateway accepts', () => {
  let gateway: AcceptingGateway;
  const schemas = validators(CONTRACT, join(repositoryRoot, 'infra/crds', DEFINITION));

  beforeAll(async () => {
    gateway = await new AcceptingGateway().open();
  });
  afterAll(() => gateway.close());

  it.each(documentsOf('description'))('%s', async (_, { value }) => {
    const { name } = value as Description;
    expect(await gateway.describe(JSON.stringify(value))).toMatchObject({ name });
  });

  it.each(documentsOf('description').filter(([name]) => !/^description-(bytes|unknown)/.test(name)))(
    'the same in a ReconcileFunction: %s',
    async (_, { value }) => {
      const { version: _version, name, ...spec } = value as Description;
      const object = {
        metadata: { namespace: 'a', name, uid: 'u', resourceVersion: '1' },
        spec: { ...LEAST_SPEC, ...spec },
      };
      schemas.get('reconcilefunction')?.(object);
      expect(schemas.get('reconcilefunction')?.errors ?? []).toEqual([]);
      await acceptFunction(object as never);
    },
  );

  it.each(documentsOf('reconcilefunction'))('%s', (_, { value }) => acceptFunction(value as ReconcileFunction));

  it.each(documentsOf('outcome'))('%s', async (_, { value }) => {
    const outcome = value as OutcomeBody;
    const finishes = await gateway.outcome(outcome);
    expect(finishes.map(summaryOf)).toEqual(outcome.results.map(endOf));
    // The same results as lines and as callbacks, whose own fields leave less room for a result.
    for (const result of new Map(outcome.results.map((each) => [JSON.stringify(each), each])).values()) {
      if (Buffer.byteLength(JSON.stringify(result)) > MIB - 200) continue;
      expect((await gateway.lines([{ run: 1, result }, OTHER], [1, OTHER.run])).map(summaryOf)).toEqual([
        endOf(result),
        endOf(OTHER.result),
      ]);
      const callback = { version: 'v1', controller: 'web', token: 't', name: 'a', run: 1, result } as const;
      expect(summaryOf(await gateway.callback(callback))).toEqual(endOf(result));
    }
  });

  it.each(documentsOf('line'))('%s', async (_, { value }) => {
    const line = value as ResultLine;
    const finishes = await gateway.lines([OTHER, line], [line.run, OTHER.run]);
    expect(finishes.map(summaryOf)).toEqual([line, OTHER].map(({ result }) => endOf(result)));
  });

  it.each(documentsOf('stream'))('%s', async (_, { value }) => {
    const results = (value as readonly Partial<ResultLine>[]).flatMap(({ run = 0, result }) =>
      result ? [{ run, result }] : [],
    );
    const finishes = await gateway.lines(
      value as ResultLine[],
      results.map(({ run }) => run),
    );
    expect(finishes.map(summaryOf)).toEqual(results.map(({ result }) => endOf(result)));
  });

  it.each(documentsOf('callback'))('%s', async (_, { value }) => {
    const callback = value as CallbackBody;
    expect(summaryOf(await gateway.callback(callback))).toEqual(endOf(callback.result));
  });

  it.each(documentsOf('cache'))('%s', (_, { value }) => {
    const { kind, namespace, query } = value as {
      kind: GroupVersionKind;
      namespace?: string;
      query: Record<string, string>;
    };
    expect(() => listRequest(kind, new URLSearchParams(query), namespace)).not.toThrow();
  });

  it.each(documentsOf('write'))('%s', async (_, { value }) => {
    const { method, path, body } = value as { method: string; path: string; body?: object };
    const { href, pathname, searchParams } = new URL(path, 'http://gateway');
    const request = proxiedRequest(method, pathname, searchParams, 'user');
    expect(request).toMatchObject({ isWrite: true, path: pathname.replaceAll(':', '%3A') });
    expect(Object.fromEntries(request.query)).toEqual(Object.fromEntries(searchParams));
    const sent = new Request(href, { method, body: JSON.stringify(body) ?? null });
    const taken = await readBody(sent, ownBounds().openHold(), new AbortController().signal);
    expect(() => requestOptions(request, taken)).not.toThrow();
  });

  it.each(documentsOf('verdict'))('%s', (_, { value }) => {
    const { webhook, answer } = value as { webhook: WebhookDescription; answer: object };
    const headers = { [LEVELHOOK_HEADER]: 'v1' };
    const sent = { kind: 'answered', status: 200, headers, body: JSON.stringify(answer), isStream: false } as const;
    expect(JSON.parse(answeredReview(sent, webhook, 'u'))).toMatchObject({ response: { uid: 'u' } });
  });
});

describe('a function accepts', () => {
  it.each(documentsOf('trigger'))('%s', (_, { value }) => {
    expect(decodeTrigger(JSON.stringify(value))).toMatchObject({ version: 'v1' });
  });

  it.each(documentsOf('review'))('%s', (_, { value }) => {
    expect(decodeReviewRequest(value)).toMatchObject({ version: 'v1' });
  });
});

describe('a document in fewer words', () => {
  it('is written out', () => {
    const list = [
      { times: 2, of: { 'n<at>': ['<ab*2><c*3>', '<at>'] } },
      { levels: 2, of: 'x' },
      { times: 1 },
      '<a*b>',
    ];
    expect(writtenOut({ list })).toEqual({
      list: [{ n1: ['ababccc', 1] }, { n2: ['ababccc', 2] }, [['x']], { times: 1 }, '<a*b>'],
    });
  });
});

describe('the bounds of a schema', () => {
  it('are unreached until a value is at them', () => {
    const schema = {
      properties: {
        names: { maxItems: 2, items: { $ref: '#/$defs/name' } },
        labels: { propertyNames: { maxLength: 1 }, additionalProperties: { enum: ['x', 'y'] } },
        map: {
          oneOf: [{ properties: { by: { const: 'a' }, at: { maximum: 5 } } }, { properties: { by: { const: 'b' } } }],
        },
      },
      $defs: { name: { maxLength: 3 } },
    };
    const unreachedBy = (...values: unknown[]): readonly string[] => {
      const unreached = new UnreachedBounds();
      unreached.add(schema, values);
      return unreached.list;
    };
    expect(unreachedBy()).toHaveLength(8);
    expect(unreachedBy({ names: ['abc', 'b'] }, { labels: { a: 'x' } })).toEqual([
      'at: maximum 5',
      'by: "a"',
      'by: "b"',
      'labels: "y"',
    ]);
    expect(unreachedBy({ map: { by: 'b', at: 5 } })).toContain('at: maximum 5');
    expect(unreachedBy({ map: { by: 'a', at: 5 } })).not.toContain('at: maximum 5');
  });
});

/** The documents of one kind, each with its name. */
function documentsOf(kind: string) {
  return titled(documents.filter((each) => each.kind === kind));
}

/** The bytes that a name promises; 0: none. */
function sizeIn(name: string): number {
  const [, count = 0, unit] = /(\d+) ([KM])iB/.exec(name) ?? [];
  return Number(count) * (unit === 'M' ? MIB : KIB);
}

function sourcesOf({ for: reconciled, owns, watches }: Description) {
  return [reconciled, ...owns, ...watches];
}

/** The number of predicates in a predicate, how many of them combine no others, and how deep they are. */
function partsOf(predicate: Predicate | undefined): { nodes: number; leaves: number; levels: number } {
  const [inner] = Object.values(predicate ?? {}) as [Predicate | Predicate[]];
  const isLeaf = !predicate || !('all' in predicate || 'any' in predicate || 'not' in predicate);
  const parts = isLeaf ? [] : [inner].flat().map(partsOf);
  return {
    nodes: parts.reduce((sum, { nodes }) => sum + nodes, 1),
    leaves: parts.reduce((sum, { leaves }) => sum + leaves, isLeaf ? 1 : 0),
    levels: 1 + Math.max(0, ...parts.map(({ levels }) => levels)),
  };
}

function leavesOf(description: Description): number {
  const predicates = sourcesOf(description).flatMap(({ predicate }) => (predicate ? [predicate] : []));
  return predicates.reduce((sum, each) => sum + partsOf(each).leaves, 0);
}

function operationsOf({ watches: [watched] }: Description): number {
  return watched?.map.by === 'cel' ? parseExpression(watched.map.expression, MAPPER_VARIABLES, 60_000).nodes : 0;
}

/** The second run of a trigger, without which the gateway asks for no stream. */
const OTHER: ResultLine = { run: 2, result: { status: 'done' } };

const LEAST_SPEC = {
  endpoint: { url: 'https://example.com' },
  serviceAccountName: 'a',
  signingSecret: { name: 'a' },
};

/** @throws for a wrong one */
function acceptFunction(object: ReconcileFunction): Promise<void> {
  return withTime(() => checkSources(decodeSpec(object).description));
}

/** The end of a run, as far as its result decides it. */
function summaryOf(finish: Finish | undefined): object {
  switch (finish?.kind) {
    case 'ended': {
      const { failures, dead, error, againAfterMs, wrote } = finish;
      return { failures, dead, error, againAfterMs, writes: wrote?.count ?? 0 };
    }
    case 'accepted':
      return { hours: Math.round((finish.untilMs - Date.now()) / 3_600_000) };
    default:
      return { error: finish?.error };
  }
}

/** What `summaryOf` gives when the result is taken as it is. */
function endOf(result: RequestResult): object {
  const writes = 'writes' in result ? (result.writes ?? []).length : 0;
  switch (result.status) {
    case 'done': {
      const { requeueAfterSeconds: seconds } = result;
      const againAfterMs = seconds ? Math.max(seconds * 1000, 100) : undefined;
      return { failures: 'forget', dead: undefined, error: undefined, againAfterMs, writes };
    }
    case 'error': {
      const againAfterMs = result.retryAfterSeconds ? result.retryAfterSeconds * 1000 : keyBackoffMs(1);
      return { failures: 'count', dead: undefined, error: shown(result), againAfterMs, writes };
    }
    case 'terminal':
      return { failures: 'keep', dead: true, error: shown(result), againAfterMs: undefined, writes };
    case 'unknown':
      return { error: shown(result) };
    case 'accepted':
      return { hours: Math.round(result.withinSeconds / 3600) };
  }
}

const shown = ({ message }: { readonly message: string }): string => boundedText(message, 1024);
