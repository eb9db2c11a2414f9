import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ApiError, resourcePath } from '../../../src/core/index.ts';
import { descriptionSchema } from '../../../src/contract/description-schema.ts';
import { checkSources } from '../../../src/gateway/controller/handlers/check-sources.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, ReconcileFunction } from '../../harness/tenant.ts';

const POD = { apiVersion: 'v1', kind: 'Pod' };
const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap' };
const several = <T>(count: number, of: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => of(at));
const forPods = (more: object): object => ({ for: { ...POD, ...more } });
const watched = (map: object): object => ({ for: POD, watches: [{ ...CONFIG_MAP, map }] });

/** What a description may say of each bound: the most or the least that is allowed, and what is one beyond. */
const BOUNDS: readonly [string, (size: number) => object, allowed: number, beyond: number][] = [
  ['namespaces of a kind', (size) => forPods({ namespaces: several(size, (at) => `team-${at}`) }), 100, 101],
  [
    'namespaces of a kind that is read',
    (size) => ({ for: POD, reads: [{ ...CONFIG_MAP, namespaces: several(size, (at) => `team-${at}`) }] }),
    100,
    101,
  ],
  ['namespaces, at least one', (size) => forPods({ namespaces: several(size, () => 'a') }), 1, 0],
  ['letters of a namespace', (size) => forPods({ namespaces: ['a'.repeat(size)] }), 63, 64],
  ['letters of a kind', (size) => ({ for: { apiVersion: 'v1', kind: 'K'.repeat(size) } }), 63, 64],
  ['kinds that are owned', (size) => ({ for: POD, owns: several(size, () => CONFIG_MAP) }), 31, 32],
  ['kinds that are read', (size) => ({ for: POD, reads: several(size, () => CONFIG_MAP) }), 31, 32],
  [
    'kinds that are watched',
    (size) => ({ for: POD, watches: several(size, () => ({ ...CONFIG_MAP, map: { by: 'all' } })) }),
    31,
    32,
  ],
  [
    'kinds in all',
    (size) => ({ for: POD, owns: several(15, () => CONFIG_MAP), reads: several(size, () => CONFIG_MAP) }),
    16,
    17,
  ],
  [
    'indexes',
    (size) => ({ for: POD, indexes: several(size, (at) => ({ ...POD, index: `label:label-${at}` })) }),
    16,
    17,
  ],
  [
    'parts of a predicate, with the one that combines them',
    (size) => forPods({ predicate: { any: several(size, () => ({ changed: 'labels' })) } }),
    31,
    33,
  ],
  ['letters of an expression', (size) => forPods({ predicate: { cel: `${' '.repeat(size - 4)}true` } }), 2048, 2049],
  [
    'letters of an expression that maps',
    (size) => watched({ by: 'cel', expression: `${' '.repeat(size - 2)}""` }),
    2048,
    2049,
  ],
  ['letters of a path', (size) => watched({ by: 'field', path: 'a'.repeat(size) }), 512, 513],
  ['concurrency', (concurrency) => ({ for: POD, concurrency }), 1000, 1001],
  ['concurrency, the least', (concurrency) => ({ for: POD, concurrency }), 1, 0],
  ['timeoutSeconds', (timeoutSeconds) => ({ for: POD, timeoutSeconds }), 900, 901],
  ['timeoutSeconds, the least', (timeoutSeconds) => ({ for: POD, timeoutSeconds }), 1, 0.5],
  // More than the concurrency: a batch has no more keys than that.
  ['maxBatch', (maxBatch) => ({ for: POD, maxBatch }), 100, 101],
  ['callbackSeconds', (callbackSeconds) => ({ for: POD, callbackSeconds }), 86_400, 86_401],
  ['maxAttempts', (maxAttempts) => ({ for: POD, queue: { maxAttempts } }), 1000, 1001],
  ['rateLimit', (perSecond) => ({ for: POD, queue: { rateLimit: { perSecond, burst: 1 } } }), 100_000, 100_001],
  ['burst', (burst) => ({ for: POD, queue: { rateLimit: { perSecond: 1, burst } } }), 100_000, 100_001],
  ['debounce', (maxSeconds) => ({ for: POD, queue: { debounce: { seconds: 3600, maxSeconds } } }), 86_400, 86_401],
  ['debounce, the least', (maxSeconds) => ({ for: POD, queue: { debounce: { seconds: 10, maxSeconds } } }), 10, 9],
  [
    'debounce, leading',
    (maxSeconds) => ({ for: POD, queue: { debounce: { seconds: 1, maxSeconds, leading: true } } }),
    60,
    61,
  ],
];

describe('a description and a ReconcileFunction of the same words', () => {
  const namespace = uniqueName('bounds');
  const started = new Started();
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    await installReconcileFunctions(cluster);
  });

  afterAll(() => started.stop());

  /** Whether the gateway takes it from a function by URL. */
  function isDescription(spec: object): boolean {
    const parsed = descriptionSchema.safeParse({ version: 'v1', name: 'web', ...spec });
    if (!parsed.success) return false;
    try {
      checkSources(parsed.data);
      return true;
    } catch {
      return false;
    }
  }

  /** Whether the apiserver takes it as a spec. */
  async function isSpec(spec: object): Promise<boolean> {
    const rest = {
      endpoint: { url: 'https://example.com' },
      serviceAccountName: 'reader',
      signingSecret: { name: 'signing' },
    };
    const { apiVersion, kind } = ReconcileFunction;
    try {
      await cluster.client.json({
        method: 'POST',
        path: resourcePath(ReconcileFunction, { namespace }),
        query: { dryRun: 'All' },
        body: { apiVersion, kind, metadata: { namespace, name: 'web' }, spec: { ...rest, ...spec } },
      });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.code === 422) return false;
      throw error;
    }
  }

  it.each(BOUNDS)('have the same bound: %s', async (_what, of, allowed, beyond) => {
    expect([isDescription(of(allowed)), await isSpec(of(allowed))]).toEqual([true, true]);
    expect([isDescription(of(beyond)), await isSpec(of(beyond))]).toEqual([false, false]);
  });
});
