/** The requests of the cache API that a function needs, for `openapi.json`. `infra/contract/cache.md` explains them. */

type Json = { [name: string]: unknown };

/** Why a request is refused, by status: also the rows of the table in `cache.md`. */
const REFUSALS: Readonly<Record<number, string>> = {
  400: 'A selector, `continue`, `limit` or `resourceVersion` that cannot be read, or a field that cannot be selected by.',
  401: 'No token, a wrong one, or one that is over.',
  403: 'A kind or namespace outside of the token, or a subresource. Whether it exists is not told.',
  404: 'The object does not exist, or the path has no meaning.',
  405: 'A watch, a HEAD or a write of a kind that may be read.',
  406: '`accept` allows no JSON.',
  410: 'The cache was filled anew since the first page, or `resourceVersionMatch=Exact`. Begin the list anew.',
  413: 'The list is too long without `limit`.',
  422: 'Parameters that contradict each other.',
  429: 'Too many requests, or the cache is being filled. Ask again after `retry-after`.',
  500: 'The object is kept out of the cache, or an error of the gateway.',
  503: 'The gateway starts, or checks its cache. Ask again after `retry-after`.',
  504: 'The cache is not as new as `resourceVersion` after 3 s. Ask again after `retry-after`.',
};

/** Those that name a time to wait. */
const LATER: ReadonlySet<number> = new Set([429, 503, 504]);

/** The paths of namespaced and cluster-scoped kinds, of the core group and of others. */
export function cachePaths(): Json {
  const groups = { core: '/api/{version}', group: '/apis/{group}/{version}' };
  const paths: Json = {};
  for (const [name, root] of Object.entries(groups)) {
    for (const [scope, folder] of Object.entries({ namespaced: '/namespaces/{namespace}', cluster: '' })) {
      const path = `${root}${folder}/{plural}`;
      const id = `${name}-${scope}`;
      paths[path] = item(path, { operationId: `list-${id}`, ...list() });
      paths[`${path}/{name}`] = item(`${path}/{name}`, { operationId: `get-${id}`, ...get() });
    }
  }
  return paths;
}

export const cacheSecurityScheme: Json = {
  type: 'http',
  scheme: 'bearer',
  description: 'The `token` of the trigger that is being run.',
};

function item(path: string, operation: Json): Json {
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  return {
    servers: [{ url: 'https://gateway.example.com/cache', description: 'The `cache.url` of the trigger.' }],
    parameters,
    get: { ...operation, security: [{ cacheToken: [] }] },
  };
}

function get(): Json {
  return {
    summary: 'An object of the cache.',
    parameters: [
      parameter('resourceVersion', 'Wait up to 3 s until the cache is at least so new.'),
      parameter(
        'levelhook-unchanged',
        'An observed field: the header `levelhook-unchanged-seconds` tells of its value.',
      ),
      parameter(
        'levelhook-unchanged-item',
        'The item of the field that is asked for: in JSON the values of the fields in its braces.',
      ),
    ],
    responses: {
      200: answer('The object, as the apiserver sent it.', { type: 'object' }),
      ...refusals([410, 413, 422]),
    },
  };
}

function list(): Json {
  return {
    summary: 'A list of cached objects. With `/namespaces/{namespace}` of one namespace, otherwise of all.',
    parameters: [
      parameter('labelSelector', 'As at the apiserver.'),
      parameter('fieldSelector', '`metadata.name` and `metadata.namespace`; more for some kinds.'),
      parameter('limit', 'Objects in one answer.', { type: 'integer', minimum: 1 }),
      parameter('continue', '`metadata.continue` of the last page.'),
      parameter('resourceVersion', 'Wait up to 3 s until the cache is at least so new.'),
      parameter('resourceVersionMatch', '`NotOlderThan`, or absent.'),
      parameter(
        'levelhook-controlledBy',
        '`NAMESPACE/UID` of the owner with `controller: true`, or `/UID` of an owner of a cluster-scoped kind that the token reads.',
      ),
      parameter('levelhook-orphans', 'A namespace: only its objects without an owner with `controller: true`.'),
      parameter(
        'levelhook-index',
        '`field:PATH=VALUE`, `label:KEY=VALUE`, `annotation:KEY=VALUE`, or `labels` beside a `labelSelector`.',
      ),
    ],
    responses: { 200: answer('The list.', LIST), ...refusals([]) },
  };
}

const text = (description: string): Json => ({ type: 'string', description });

const LIST = {
  type: 'object',
  required: ['metadata', 'items'],
  properties: {
    metadata: {
      type: 'object',
      properties: {
        resourceVersion: text('No object of the list is older. That of the first page, on all pages.'),
        continue: text('Present if the list goes on.'),
        remainingItemCount: { type: 'integer', description: 'Only without a selector.' },
      },
    },
    items: { type: 'array', items: { type: 'object' } },
    keptOut: {
      type: 'array',
      description: 'Objects that the list lacks, because they are too large for the cache or nested too deeply.',
      items: { type: 'object', properties: { key: text('`namespace/name`, or `name`.'), reason: text('Why.') } },
    },
  },
};

const STATUS = {
  type: 'object',
  description: 'A Kubernetes Status.',
  properties: { kind: { const: 'Status' }, code: { type: 'integer' }, reason: text('A word.'), message: text('Why.') },
};

function refusals(except: readonly number[]): Json {
  const all = Object.entries(REFUSALS).filter(([status]) => !except.includes(Number(status)));
  return Object.fromEntries(
    all.map(([status, description]) => {
      const headers = { 'retry-after': { description: 'Seconds.', schema: { type: 'integer' } } };
      const refusal = answer(description, STATUS);
      return [status, LATER.has(Number(status)) ? { ...refusal, headers } : refusal];
    }),
  );
}

function answer(description: string, schema: Json): Json {
  return { description, content: { 'application/json': { schema } } };
}

function parameter(name: string, description: string, schema: Json = { type: 'string' }): Json {
  return { name, in: 'query', required: false, description, schema };
}
