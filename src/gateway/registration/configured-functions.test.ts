import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { quietRuntime } from '../../../test/harness/quiet-runtime.ts';
import { RawFunction } from '../../../test/harness/raw-function.ts';
import { InstantClock } from '../../../test/harness/test-clock.ts';
import type { Description } from '../../contract/index.ts';
import { ConfiguredFunctions } from './configured-functions.ts';

const forEver = (): Promise<void> => new Promise(() => {});

class World {
  readonly functions: RawFunction[] = [];
  readonly outdated = new Set<string>();
  /** The same, and only a review of the kinds shows it. */
  readonly replaced = new Set<string>();
  readonly changed: string[] = [];
  completed: ReadonlySet<string> | undefined;
  /** The results of adding and of changing a function. */
  add: (name: string) => Promise<void> = async () => {};
  change: (name: string) => Promise<void> = async () => {};
  readonly #ending = new AbortController();

  async open(name: string): Promise<RawFunction> {
    const opened = new RawFunction({
      name,
      for: { apiVersion: 'v1', kind: 'Pod' },
      concurrency: 1,
      timeoutSeconds: 15,
    });
    await opened.open();
    this.functions.push(opened);
    return opened;
  }

  start(): ConfiguredFunctions {
    const functions = new ConfiguredFunctions({
      urls: this.functions.map(({ url }) => url),
      files: { keys: [], ca: undefined },
      reviewMs: 60_000,
      add: ({ name }: Description) => this.add(name),
      outdated: async ({ name }, isReview) => this.outdated.has(name) || (isReview && this.replaced.has(name)),
      change: async ({ name }) => {
        this.changed.push(name);
        await this.change(name);
        this.outdated.delete(name);
        this.replaced.delete(name);
      },
      complete: async (names) => void (this.completed = names),
      runtime: quietRuntime({ clock: new InstantClock() }),
    });
    functions.start(this.#ending.signal);
    return functions;
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.functions.map((each) => each.close()));
  }
}

let world: World;

beforeEach(() => {
  world = new World();
});

afterEach(() => world.end());

describe('a controller that cannot be started anew', () => {
  it('is tried until it can, and until then the functions is not ready', async () => {
    const { url } = await world.open('web');
    const functions = world.start();
    await eventually(async () => expect(functions.notReady()).toBeUndefined());
    world.change = () => Promise.reject(new Error('OOM'));
    world.outdated.add('web');
    await eventually(async () => expect(world.changed.length).toBeGreaterThan(3));
    expect(functions.notReady()).toBe(`${url}: its controller could not be started anew: OOM`);
    world.change = async () => {};
    await eventually(async () => expect(functions.notReady()).toBeUndefined());
    expect(world.outdated).toEqual(new Set());
  });

  it('is tried until it can, although only a review shows that it has to be', async () => {
    await world.open('web');
    const functions = world.start();
    world.change = () => Promise.reject(new Error('OOM'));
    world.replaced.add('web');
    await eventually(async () => expect(world.changed.length).toBeGreaterThan(3));
    expect(functions.notReady()).toContain('OOM');
    world.change = async () => {};
    await eventually(async () => expect(functions.notReady()).toBeUndefined());
    expect(world.replaced).toEqual(new Set());
  });

  it('is ready again when what made it outdated was taken back', async () => {
    await world.open('web');
    const functions = world.start();
    world.change = () => Promise.reject(new Error('OOM'));
    world.outdated.add('web');
    await eventually(async () => expect(functions.notReady()).toContain('OOM'));
    world.outdated.clear();
    await eventually(async () => expect(functions.notReady()).toBeUndefined());
  });

  it('keeps its name', async () => {
    await world.open('web');
    world.change = () => Promise.reject(new Error('OOM'));
    world.outdated.add('web');
    await world.open('web');
    // As `Controllers` does it: the second is refused as long as the first runs.
    const added: string[] = [];
    world.add = async (name) => {
      if (added.length > 0 && world.changed.length === 0) throw new Error('taken');
      added.push(name);
    };
    const functions = world.start();
    await eventually(async () => expect(world.changed.length).toBeGreaterThan(3));
    expect(added).toEqual(['web']);
    expect(functions.notReady()).toBeDefined();
  });
});

it.each(['key', 'history', 'writes', 'taken', 'busies', 'paused'])(
  'a function may not call its controller "%s", which names other keys of the queue in Redis',
  async (name) => {
    const { url } = await world.open(name);
    const functions = world.start();
    const refusal = `${url}: a controller cannot be called "${name}": rename it`;
    await eventually(async () => expect(functions.notReady()).toBe(refusal));
  },
);

describe('a function is looked after', () => {
  it('while another one does not answer', async () => {
    await world.open('web');
    const down = await world.open('down');
    await world.open('other');
    world.outdated.add('web');
    world.start();
    await down.close();
    world.add = (name) => (name === 'down' ? Promise.reject(new Error('down')) : Promise.resolve());
    await eventually(async () => expect(world.changed).toEqual(['web']));
    expect(world.completed).toBeUndefined();
    world.add = async () => {};
    await down.open();
    await eventually(async () => expect(world.completed).toEqual(new Set(['web', 'down', 'other'])));
  });

  it('while the kinds of another one are listed for ever', async () => {
    await world.open('endless');
    await world.open('web');
    world.change = (name) => (name === 'endless' ? forEver() : Promise.resolve());
    world.outdated.add('endless');
    world.start();
    await eventually(async () => expect(world.changed).toEqual(['endless']));
    world.outdated.add('web');
    await eventually(async () => expect(world.changed).toEqual(['endless', 'web']));
  });
});
