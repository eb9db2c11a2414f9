import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { type KubernetesObject, matchesLabels, resource } from '../../../src/core/index.ts';
import { declaredIndex, namespaceIndex } from '../../../src/contract/cache-layout.ts';
import { HandlerError, type Lookup } from '../../../src/gateway/informer/cache/change.ts';
import { ObjectCodec } from '../../../src/contract/node/codec.ts';
import { resolveLookup, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { createView } from '../../harness/views.ts';

const Service = resource('v1', 'Service');
const INDEX = 'selector:spec.selector';
const SEED = newSeed();

class Random {
  readonly #next = randomOf(SEED);

  below(count: number): number {
    return Math.floor(this.#next() * count);
  }

  pick<T>(values: readonly [T, ...T[]]): T {
    return values[this.below(values.length)] ?? values[0];
  }
}

const RARE = Array.from({ length: 30 }, (_, at) => `rare${at}`);

/** One of few values, which hundreds of Services demand, or of many, which a few do. */
const label = (random: Random): [string, string] => [
  random.pick(['app', 'tier']),
  random.pick([random.pick(['a', 'b', 'c']), random.pick(['a', ...RARE])]),
];

/** Some pods are selected by none of them, some by a few, some by more than a lookup reads at a time. */
function servicesOf(random: Random): KubernetesObject[] {
  return Array.from({ length: 1500 }, (_, at) => {
    const metadata = {
      namespace: random.pick(['n', 'm']),
      name: `s${at}`,
      uid: `u${at}`,
      resourceVersion: `${at + 1}`,
    };
    // An empty selector, which selects all, is rare.
    const labels = Array.from({ length: at % 500 === 0 ? 0 : 1 + random.below(2) }, () => label(random));
    const whole = { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: Object.fromEntries(labels) } };
    return whole;
  });
}

describe('a lookup', () => {
  let redis: Redis;
  let view: View;
  const random = new Random();
  const services = servicesOf(random);

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
    view = createView(redis, Service);
    await view.writer.claim('writer');
    view.indexer.maintain([INDEX]);
    await applierOf(view).apply(listOf('9000', services));
  });
  afterAll(() => redis.disconnect());

  /** As the mapper by selector makes it. */
  function bySelector(namespace: string, labels: Readonly<Record<string, string>>): Lookup {
    const entries = [namespaceIndex(namespace)];
    return { view: view.location.prefix, entries, declared: INDEX, selector: { path: 'spec.selector', labels } };
  }

  const selecting = (namespace: string, labels: Readonly<Record<string, string>>): string[] =>
    services
      .filter(({ metadata }) => metadata.namespace === namespace)
      .filter((each) => matchesLabels({ matchLabels: selectorOf(each) }, labels))
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
      .toSorted();

  const find = async (lookup: Lookup): Promise<string[]> =>
    [...(await resolveLookup(view, lookup, unlimitedLookups))].toSorted();

  it.each(['filled', 'complete'])(
    `finds what the objects say, with an index that is being %s (TEST_SEED=${SEED})`,
    async (state) => {
      if (state === 'complete') await view.indexer.record([INDEX]);
      const found: number[] = [];
      for (let at = 0; at < 80; at += 1) {
        const labels = Object.fromEntries(Array.from({ length: random.below(3) }, () => label(random)));
        const namespace = random.pick(['n', 'm', 'none']);
        const expected = selecting(namespace, labels);
        expect(await find(bySelector(namespace, labels)), JSON.stringify({ namespace, labels })).toEqual(expected);
        found.push(expected.length);
      }
      // Some are answered by the one script, some are declined.
      expect(found.filter((count) => count > 0 && count <= 20).length).toBeGreaterThan(5);
      expect(Math.max(...found)).toBeGreaterThan(20);
    },
  );

  it('without a selector finds all that the index has, and all objects without an index', async () => {
    const prefix = view.location.prefix;
    const inNamespace = services.flatMap(({ metadata }) => (metadata.namespace === 'n' ? `n/${metadata.name}` : []));
    expect(await find({ view: prefix, entries: [namespaceIndex('n')] })).toEqual(inNamespace.toSorted());
    expect(await find({ view: prefix, entries: [] })).toHaveLength(services.length);
  });

  it('finds the objects that have too many values for the index', async () => {
    const byRef = createView(redis, Service);
    await byRef.writer.claim('writer');
    byRef.indexer.maintain(['field:spec.refs']);
    const refs = (count: number): string[] => Array.from({ length: count }, (_, at) => `r${at}`);
    const sizes = { few: 2, many: 50, thousands: 5000, none: 0 };
    const objects = Object.entries(sizes).map(([name, count], at) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'n', name, uid: `u${at}`, resourceVersion: String(at + 1) },
      spec: { refs: refs(count) },
    }));
    await applierOf(byRef).apply(listOf('9000', objects));
    await byRef.indexer.record(['field:spec.refs']);
    const referrers = async (ref: string): Promise<string[]> => {
      const entries = [namespaceIndex('n'), declaredIndex('field:spec.refs', ref)];
      const lookup = { view: byRef.location.prefix, entries, declared: 'field:spec.refs' } as const;
      return [...(await resolveLookup(byRef, lookup, unlimitedLookups))].toSorted();
    };
    expect(await referrers('r1')).toEqual(['n/few', 'n/many', 'n/thousands']);
    expect(await referrers('r49')).toEqual(['n/many', 'n/thousands']);
    expect(await referrers('r4999')).toEqual(['n/thousands']);
    expect(await referrers('r5000')).toEqual([]);
  });

  it('finds no object whose selector apimachinery refuses', async () => {
    const odd = createView(redis, Service);
    await odd.writer.claim('writer');
    const expressions = {
      good: { key: 'app', operator: 'NotIn', values: ['b'] },
      value: { key: 'app', operator: 'NotIn', values: ['no label'] },
      key: { key: 'no label', operator: 'DoesNotExist' },
    };
    const objects = Object.entries(expressions).map(([name, expression], at) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'n', name, uid: `u${at}`, resourceVersion: String(at + 1) },
      spec: { selector: { matchExpressions: [expression] } },
    }));
    await applierOf(odd).apply(listOf('9000', objects));
    const lookup = { ...bySelector('n', { app: 'a' }), view: odd.location.prefix };
    expect(await resolveLookup(odd, lookup, unlimitedLookups)).toEqual(['n/good']);
  });

  it('of a controller without time left reads nothing', async () => {
    const sent = vi.spyOn(redis, 'sendCommand');
    const spent = {
      ...unlimitedLookups,
      run: () => {
        throw new HandlerError('no time left');
      },
    };
    await expect(resolveLookup(view, bySelector('n', { app: 'a' }), spent)).rejects.toThrow(HandlerError);
    await expect(resolveLookup(view, bySelector('n', { app: 'rare1' }), spent)).rejects.toThrow(HandlerError);
    await expect(resolveLookup(view, { view: view.location.prefix, entries: [] }, spent)).rejects.toThrow(HandlerError);
    expect(sent).not.toHaveBeenCalled();
    sent.mockRestore();
  });

  it('pays for an object that is small only where it is compressed', async () => {
    const packed = createView(redis, Service, (prefix) => new ObjectCodec({ prefix, compressAbove: 1000 }));
    await packed.writer.claim('writer');
    const named = (name: string, filling: string) => {
      const metadata = { namespace: 'n', name, uid: `u-${name}`, resourceVersion: '1' };
      return { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: { filling } } };
    };
    await applierOf(packed).apply(listOf('9000', [named('small', 'x'), named('packed', 'x'.repeat(50_000))]));
    let paid = 0;
    const budget = { ...unlimitedLookups, run: <T>(work: () => T): T => ((paid += 1), work()) };
    const lookup = (key: string): Lookup => ({ view: packed.location.prefix, entries: [], keys: [key] });
    expect(await resolveLookup(packed, lookup('n/small'), budget)).toEqual(['n/small']);
    expect(paid).toBe(0);
    expect(await resolveLookup(packed, lookup('n/packed'), budget)).toEqual(['n/packed']);
    expect(paid).toBe(1);
  });
});

function selectorOf(service: KubernetesObject): Record<string, string> {
  const { spec } = service as KubernetesObject & { spec: { selector: Record<string, string> } };
  return spec.selector;
}
