import { expect, it } from 'vitest';
import { formatKind, type Resource, resource } from '../../../core/index.ts';
import { descriptionSchema } from '../../../contract/description-schema.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { ControllerSources } from './controller-sources.ts';

const pods = resource('v1', 'Pod');
const webs = resource('example.com/v1', 'Web');

/** The informers of two kinds, with the age limits that controllers have set. */
class World {
  readonly limits = new Map<string, number>();
  /** For how long the oldest event of a kind waits, in milliseconds. Default: none does. */
  readonly unapplied = new Map<Resource, number>();
  readonly #informers = new Map([pods, webs].map((each) => [each, this.#informerOf(each)]));

  /** The sources of a controller whose webhooks need the cache to be this young. */
  sources(kinds: readonly Resource[], maxAges: readonly number[]): ControllerSources {
    const [reconciled, ...reads] = kinds;
    const webhooks = maxAges.map((maxAgeSeconds, at) => ({
      type: 'validating',
      name: `w${at}`,
      apiVersion: reconciled?.apiVersion,
      kind: reconciled?.kind,
      operations: ['CREATE'],
      cache: { maxAgeSeconds, otherwise: 'fail' },
    }));
    const parts = { version: 'v1', name: 'web', for: reconciled, reads, webhooks };
    const description = descriptionSchema.parse(JSON.parse(JSON.stringify(parts)));
    const all = kinds.map((each) => ({
      resource: each,
      informers: [this.#informers.get(each)].flatMap((i) => i ?? []),
    }));
    return new ControllerSources({ id: 'web', description }, all);
  }

  #informerOf(of: Resource): Informer {
    const informer: Partial<Informer> = {
      begin: async () => {},
      setHandlers: async () => {},
      setIndexes: () => {},
      setAgeLimit: (_user, limitMs) => void this.limits.set(formatKind(of), limitMs),
    };
    const { unapplied } = this;
    return {
      ...informer,
      name: formatKind(of),
      view: { objects: { encrypted: false } },
      get unappliedMs() {
        return unapplied.get(of) ?? 0;
      },
    } as unknown as Informer;
  }
}

it('while a controller is replaced its views stay as young as the webhooks of both declarations need them', async () => {
  const world = new World();
  const before = world.sources([webs], [60, 10]);
  const after = world.sources([webs, pods], [20]);
  await before.addHandlers([], []);
  expect(world.limits).toEqual(new Map([['example.com/v1/Web', 10_000]]));
  await after.addHandlers([], [], before);
  expect(world.limits).toEqual(
    new Map([
      ['example.com/v1/Web', 10_000],
      ['v1/Pod', 20_000],
    ]),
  );
  await after.addHandlers([], []);
  expect(world.limits.get('example.com/v1/Web')).toBe(20_000);
  await world.sources([webs, pods], []).addHandlers([], []);
  expect(world.limits.get('example.com/v1/Web')).toBe(Infinity);
});

it('says that the cache is behind when an event waits for longer than is usual', () => {
  const world = new World();
  const sources = world.sources([webs, pods], []);
  expect(sources.behind).toBeUndefined();
  world.unapplied.set(pods, 5000);
  expect(sources.behind).toBeUndefined();
  world.unapplied.set(pods, 12_400);
  expect(sources.behind).toBe('its cache is 12 s behind the server: v1/Pod');
  world.unapplied.set(webs, 7000);
  expect(sources.behind).toBe('its cache is 12 s behind the server: example.com/v1/Web, v1/Pod');
  world.unapplied.clear();
  expect(sources.behind).toBeUndefined();
});
