import { setImmediate } from 'node:timers/promises';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Pace } from '../../../../contract/node/view-reader.ts';
import { resource } from '../../../../core/index.ts';
import { answerForm } from '../answer-form.ts';
import { Catalog, type CustomColumn } from '../catalog.ts';
import { columnsOf } from './columns-of.ts';
import { customColumn, customColumns, MOST_COLUMNS, MOST_PATH_CHARACTERS } from './custom-columns.ts';
import { CELL_BYTES } from './go-text.ts';
import { CELL_STEPS } from './steps.ts';

const column = (jsonPath: string, name = 'c'): CustomColumn => ({ name, type: 'string', jsonPath });

const atOnce: Pace = (work) => work();

function cellOf(object: object, jsonPath: string): unknown {
  return customColumn(column(jsonPath))?.cell(object as never, 0);
}

/** Counts how often the values of an object are read, also where a cell reads one many times. */
class Visits {
  count = 0;
  readonly #known = new WeakMap<object, object>();

  of<T>(value: T): T {
    if (typeof value !== 'object' || value === null) return value;
    const known = this.#known.get(value) as T | undefined;
    if (known !== undefined) return known;
    const watched = new Proxy(value, {
      get: (target, name) => {
        this.count += 1;
        return this.of(Reflect.get(target, name) as unknown);
      },
    });
    this.#known.set(value, watched);
    return watched;
  }
}

/** A step may read a value and its length or its neighbours. */
const MOST_VISITS = 5 * CELL_STEPS;

function nested(levels: number, around: (inner: unknown) => object, innermost: unknown = 1): unknown {
  return Array.from({ length: levels }).reduce(around, innermost);
}

const many = (length: number): string[] => Array.from({ length }, (_, at) => `key-${at}`);
const wide = (length: number, value: unknown): object => Object.fromEntries(many(length).map((key) => [key, value]));
const deep = nested(100, (a) => ({ a }));

describe('a cell', () => {
  it.each<[string, unknown, string]>([
    ['descents within descents', deep, '.spec..a..a..a'],
    ['descents within a filter', nested(100, (a) => [{ a }]), '.spec[?(@..a..a..a)]'],
    ['a filter of a long list', Array.from({ length: 20_000 }, () => ({ v: 1 })), '.spec[?(@.v==2)].v'],
    ['a filter whose every item is an error', Array.from({ length: 2000 }, () => ({ v: [] })), '.spec[?(@.v[0])].v'],
    ['unions of a long list', many(2000), '.spec[:,:,:,:,:,:]'],
    ['the bytes of a long text', 'x'.repeat(CELL_STEPS), '.spec.*'],
    ['the text of an object with very many fields', wide(CELL_STEPS, 1), '.spec'],
    [
      'comparisons of long texts',
      nested(20, (a) => ({ a }), { list: [{ v: `${'x'.repeat(1e5)}a`, w: `${'x'.repeat(1e5)}b` }] }),
      '.spec..a..a..list[?(@.v<@.w)].v',
    ],
  ])('is empty where its path takes too many steps: %s', (_, spec, path) => {
    const visits = new Visits();
    expect(cellOf(visits.of({ spec }), path)).toBeNull();
    expect(visits.count).toBeLessThan(MOST_VISITS);
  });

  it('visits a bounded number of values, whatever the path and the object', () => {
    const part = fc.constantFrom('.a', '..a', '..', '.*', '[*]', '[0,:,:]', '[?(@..a)]', '[?(@.a==1)]', '[?(@[*])]');
    const object = fc.constantFrom<unknown>(
      deep,
      nested(5000, (a) => ({ a })),
      nested(5000, (a) => [a]),
      nested(50, (a) => [{ a }, a]),
      nested(4, (a) => Array.from({ length: 12 }, () => ({ a, b: a }))),
      wide(20_000, { a: 1 }),
      Array.from({ length: 20_000 }, () => ({ a: [1] })),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), object, (parts, spec) => {
        const visits = new Visits();
        const cell = cellOf(visits.of({ spec }), `.spec${parts.join('')}`);
        expect(visits.count).toBeLessThan(MOST_VISITS);
        expect(Buffer.byteLength(String(cell))).toBeLessThanOrEqual(CELL_BYTES);
      }),
      { numRuns: 300 },
    );
  });

  it.each<[string, unknown, string?]>([
    ['a long text', 'x'.repeat(CELL_BYTES + 1)],
    ['a text of long characters', 'x€'.repeat(CELL_BYTES)],
    ['a text of pairs of units', `x${'😀'.repeat(CELL_BYTES)}`],
    ['a text in a list', ['x😀'.repeat(CELL_BYTES)]],
    ['a list', many(100_000)],
    ['an object', { b: 'x'.repeat(CELL_BYTES), a: 1 }, `{"a":1,"b":"${'x'.repeat(CELL_BYTES)}`],
    ['a long key', { ['k'.repeat(CELL_BYTES)]: 1 }],
    ['ten thousand levels of lists', nested(9990, (a) => [a]), '['.repeat(9990)],
    ['ten thousand levels of objects', nested(9990, (a) => ({ a })), '{"a":'.repeat(9990)],
  ])('shows the beginning of %s', (_, spec, whole = typeof spec === 'string' ? spec : JSON.stringify(spec)) => {
    const visits = new Visits();
    const cell = String(cellOf(visits.of({ spec }), '.spec'));
    expect(visits.count).toBeLessThan(MOST_VISITS);
    expect(cell).toMatch(/[^\ud800-\udbff]…$/);
    const bytes = Buffer.byteLength(cell);
    expect(bytes).toBeLessThanOrEqual(CELL_BYTES);
    expect(bytes).toBeGreaterThan(CELL_BYTES - 4);
    expect(whole.startsWith(cell.slice(0, -1))).toBe(true);
  });

  it('shows a text of the most bytes whole', () => {
    const [text, list] = ['x'.repeat(CELL_BYTES), ['x'.repeat(CELL_BYTES - 4)]];
    expect(cellOf({ spec: text }, '.spec')).toBe(text);
    expect(cellOf({ spec: list }, '.spec')).toBe(JSON.stringify(list));
    expect(cellOf({ spec: [`${list[0]}x`] }, '.spec')).toBe(`${JSON.stringify(list).slice(0, -3)}…`);
  });

  it('sorts keys by their bytes, which is another order than that of their units', () => {
    expect(cellOf({ spec: { '\u{1f600}': 1, '\uff01': 2, a: 3 } }, '.spec')).toBe('{"a":3,"\uff01":2,"\u{1f600}":1}');
  });
});

const thing = { resource: resource('example.com/v1', 'Thing'), views: [] };
function catalogOf(additionalPrinterColumns: readonly CustomColumn[]): Catalog {
  const definition = { spec: { versions: [{ name: 'v1', additionalPrinterColumns }] } };
  return new Catalog(
    () => [],
    { json: async <T>() => definition as T },
    () => 0,
  );
}

describe('the columns of a definition', () => {
  it('are the first 64 with a path of 1,024 characters or fewer', async () => {
    const longest = `.${'x'.repeat(MOST_PATH_CHARACTERS - 1)}`;
    const named = many(MOST_COLUMNS + 1).map((name) => column('.spec', name));
    const shown = await customColumns([column(`${longest}x`, 'too long'), column(longest, 'long'), ...named], atOnce);
    expect(shown.map(({ definition }) => definition.name)).toEqual(['Name', 'long', ...many(MOST_COLUMNS - 1)]);
    const [, long] = shown;
    expect(long?.definition.description).toBe(`Custom resource definition column (in JSONPath format): ${longest}`);
  });

  it('have names and descriptions of bounded length', () => {
    const shown = customColumn({ ...column('.spec', 'n'.repeat(1e5)), description: 'd'.repeat(1e5) });
    expect(shown?.definition.name).toBe(`${'n'.repeat(CELL_BYTES - 3)}…`);
    expect(shown?.definition.description).toBe(`${'d'.repeat(CELL_BYTES - 3)}…`);
  });

  it('are made once, a path at a time, also for requests that come together', async () => {
    const catalog = catalogOf([column('.spec'), column('.status')]);
    let paced = 0;
    const pace: Pace = async (work) => {
      paced += 1;
      await setImmediate();
      return work();
    };
    const columns = (): ReturnType<typeof columnsOf> => columnsOf(thing, catalog, pace);
    const [first, second] = await Promise.all([columns(), columns()]);
    expect(first).toBe(second);
    expect(await columns()).toBe(first);
    expect([first.length, paced]).toEqual([3, 2]);
  });
});

describe('a row', () => {
  it('is made of one cell at a time, and its bytes are counted', async () => {
    const catalog = catalogOf(Array.from({ length: 200 }, () => column('.spec')));
    const visits = new Visits();
    const metadata = { name: 'x', namespace: 'a', uid: 'u', resourceVersion: '1' };
    const spec = wide(1000, 'x'.repeat(100));
    const object = visits.of({ apiVersion: 'example.com/v1', kind: 'Thing', metadata, spec });
    let [most, taken] = [0, 0];
    const form = await answerForm('table', thing, {
      catalog,
      includeObject: 'None',
      nowMs: 0,
      pace: (work) => {
        const before = visits.count;
        const result = work();
        most = Math.max(most, visits.count - before);
        return result;
      },
      held: { take: (bytes) => void (taken += bytes) },
    });
    const row = await form.item({ key: 'a/x', json: Buffer.from(JSON.stringify(object)), decode: () => object });
    expect(most).toBeLessThan(1.2 * 1000);
    expect(taken).toBe(Buffer.byteLength(row));
    expect(taken).toBeGreaterThan(MOST_COLUMNS * CELL_BYTES);
    expect(taken).toBeLessThan(1.2 * MOST_COLUMNS * CELL_BYTES);
    expect((JSON.parse(row.toString()) as { cells: unknown[] }).cells).toHaveLength(1 + MOST_COLUMNS);
  });
});
