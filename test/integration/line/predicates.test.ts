import { describe, expect } from 'vitest';
import {
  and,
  annotationChanged,
  cel,
  generationChanged,
  labelChanged,
  labelsMatch,
  not,
  or,
  type Predicate,
  resourceVersionChanged,
} from '../../../src/function/index.ts';
import { explainKey } from '../../../src/cli/explain-text.ts';
import type { ObjectKey, Resource } from '../../../src/core/index.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { untilIdle } from '../../harness/levelhook.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { type Observer, openObserved } from '../../harness/observer.ts';
import { defineWebs } from '../../harness/webs.ts';
import { it } from '../../harness/world.ts';

const on = labelsMatch({ matchLabels: { on: 'true' } });

/** Each lets pass a new object that is `on`, of size 3 with a part that is wanted, or an update of its labels. */
const PREDICATES: Readonly<Record<string, Predicate>> = {
  generation: generationChanged,
  version: resourceVersionChanged,
  labels: labelChanged,
  annotations: annotationChanged,
  selector: on,
  cel: cel('object.spec.size > 2'),
  'cel-old': cel('oldObject == null || oldObject.spec.size != object.spec.size'),
  'cel-loop': cel('object.spec.parts.exists(part, part.matches("^wan.*d$"))'),
  'cel-fails': cel('object.spec.nothing.like.this'),
  all: and(generationChanged, on),
  any: or(generationChanged, labelChanged),
  not: and(not(generationChanged), on),
};

describe('which events of a kind count', () => {
  let observers: ReadonlyMap<string, Observer>;
  let cluster: Cluster;
  let namespace: string;
  let webs: Resource;
  let gatewayUrl: string;

  const create = (name: string, spec: object, labels: Record<string, string> = {}): Promise<unknown> =>
    cluster.create(webs, { metadata: { namespace, name, labels }, spec });
  const isOn = { on: 'true' };

  it.beforeAll(async ({ world }) => {
    const { setting, started } = world;
    ({ cluster, namespace } = world);
    ({ webs } = await defineWebs(started, cluster, `${namespace}.levelhook.test`));
    await create('old-on', { size: 1, parts: [] }, isOn);
    await create('old-large', { size: 3, parts: ['a', 'wanted'] });
    const controllers = Object.entries(PREDICATES).map(
      ([name, predicate]) => [name, { for: { resource: webs, predicate } }] as const,
    );
    ({ observers, gatewayUrl } = await openObserved(started, setting, Object.fromEntries(controllers)));
  });

  const everyone = Object.keys(PREDICATES);
  const but = (...names: string[]): string[] => everyone.filter((name) => !names.includes(name)).toSorted();

  it('when all keys are queued: those that would count if the object were new', () => {
    const initial = (key: string) =>
      everyone.filter((name) => observers.get(name)?.keys().includes(`${namespace}/${key}`)).toSorted();
    expect(initial('old-on')).toEqual(but('cel', 'cel-loop', 'not'));
    expect(initial('old-large')).toEqual(but('selector', 'all', 'not'));
  });

  it('an object that is not there, one that the predicate leaves out, and one that is fine are told apart', async () => {
    const explained = async (controller: string, name: string): Promise<string> => {
      const answer = await new QueueClient(gatewayUrl, controller).status(`${namespace}/${name}`);
      return explainKey(controller, answer, Date.now());
    };
    const there = (key: string) => eventually(async () => expect(await explained('any', key)).toContain('at rest'));
    await there('old-on');
    expect(await explained('any', 'old-on')).toContain('\n  at rest\n  the cache has its object\n');
    for (const name of ['cel', 'cel-loop', 'not']) {
      expect(await explained(name, 'old-on'), name).toContain(
        '\n  not selected\n  the cache has its object, whose events',
      );
    }
    for (const name of everyone) {
      expect(await explained(name, 'nothing'), name).toContain('\n  no object\n  there is no such object in the cache');
    }
  });

  let markers = 0;

  /** Which controllers a change of one object wakes, whether or not it is news to the others. */
  async function wokenBy(name: string, step: () => Promise<unknown>): Promise<string[]> {
    const from = new Map([...observers].map(([each, { count }]) => [each, count]));
    await step();
    const marker = `marker-${markers}`;
    markers += 1;
    await create(marker, { size: 3, parts: ['wanted'] }, isOn);
    const patch = { metadata: { labels: { more: 'x' } } };
    await cluster.patch(webs, { namespace, name: marker }, patch);
    for (const [each, observer] of observers) {
      const object = `${webs.apiVersion}/Web ${namespace}/${marker}`;
      await observer.untilWokenBy(object, from.get(each));
    }
    await untilIdle(gatewayUrl);
    return everyone
      .filter((each) => observers.get(each)?.keys(from.get(each)).includes(`${namespace}/${name}`))
      .toSorted();
  }

  it('are those that the predicate lets pass', async () => {
    const key: ObjectKey = { namespace, name: 'x' };
    const { name } = key;
    const patch = (body: object) => () => cluster.patch(webs, key, body);
    const made = await wokenBy(name, () => create(name, { size: 1, parts: ['a'] }));
    expect(made).toEqual(but('selector', 'cel', 'cel-loop', 'all', 'not'));

    const larger = await wokenBy(name, patch({ spec: { size: 3 } }));
    expect(larger).toEqual(['any', 'cel', 'cel-fails', 'cel-old', 'generation', 'version']);

    const other = await wokenBy(name, patch({ spec: { parts: ['b', 'wanted'] } }));
    expect(other).toEqual(['any', 'cel', 'cel-fails', 'cel-loop', 'generation', 'version']);

    const labelled = await wokenBy(name, patch({ metadata: { labels: isOn } }));
    expect(labelled).toEqual(['any', 'cel', 'cel-fails', 'cel-loop', 'labels', 'not', 'selector', 'version']);

    const noted = await wokenBy(name, patch({ metadata: { annotations: { note: 'x' } } }));
    expect(noted).toEqual(['annotations', 'cel', 'cel-fails', 'cel-loop', 'not', 'selector', 'version']);

    const smaller = await wokenBy(name, patch({ spec: { size: 2 } }));
    expect(smaller).toEqual(['all', 'any', 'cel-fails', 'cel-loop', 'cel-old', 'generation', 'selector', 'version']);

    const neither = ['cel-fails', 'cel-loop', 'not', 'selector', 'version'];
    expect(await wokenBy(name, patch({ metadata: { finalizers: ['levelhook.test/f'] } }))).toEqual(neither);
    expect(await wokenBy(name, patch({ metadata: { finalizers: null } }))).toEqual(neither);

    const left = await wokenBy(name, patch({ metadata: { labels: { on: 'false' } } }));
    expect(left).toEqual(['any', 'cel-fails', 'cel-loop', 'labels', 'version']);

    const removed = await wokenBy(name, () => cluster.delete(webs, key));
    expect(removed).toEqual(but('all', 'cel', 'not', 'selector'));
  });

  it('are, whatever the predicate, all changes of the annotation that pauses the object', async () => {
    const key: ObjectKey = { namespace, name: 'paused' };
    await wokenBy('paused', () => create('paused', { size: 1, parts: [] }));
    const annotate = (value: string | null) =>
      cluster.patch(webs, key, { metadata: { annotations: { 'levelhook.dev/paused': value } } });
    await annotate('true');
    // A controller that hears of the pause and not of the resume would never run the key again.
    const resumed = await wokenBy('paused', () => annotate(null));
    expect(resumed).toEqual(everyone.toSorted());
  });

  it('are all for a controller whose expression cannot be evaluated, and the failures are counted', async () => {
    const text = await (await fetch(`${gatewayUrl}/metrics`)).text();
    const series = text.split('\n').filter((line) => line.startsWith('levelhook_expression_failures_total'));
    // On a busy machine others may have been left out for want of time, which has a reason of its own.
    const failures = series.filter((line) => line.includes('reason="error"'));
    expect(failures).toEqual([expect.stringMatching(/\{controller="cel-fails",reason="error"\} [1-9]/)]);
  });
});
