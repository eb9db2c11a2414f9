import { gunzipSync } from 'node:zlib';
import { Profile } from 'pprof-format';
import { describe, expect, it } from 'vitest';
import type { ProfileKind } from '../../../contract/node/profile-request.ts';
import { pprofOf } from './pprof.ts';

const frame = (functionName: string, url = '', lineNumber = -1) => ({ functionName, url, lineNumber, columnNumber: 0 });
const HOT = frame('hot', 'file:///app/a%20b.ts', 9);

/** 10 ms: three in `hot`, which `main` calls, one in `main`, two idle, four in an anonymous function. */
const CPU = {
  nodes: [
    { id: 1, callFrame: frame('(root)'), hitCount: 0, children: [2, 4, 5] },
    { id: 2, callFrame: frame('main', 'node:internal/main', 0), hitCount: 1, children: [3] },
    { id: 3, callFrame: HOT, hitCount: 2 },
    { id: 4, callFrame: frame('(idle)'), hitCount: 1 },
    { id: 5, callFrame: frame('', 'file:///app/a%20b.ts', 41), hitCount: 1 },
  ],
  startTime: 1_000_000,
  endTime: 1_010_000,
  samples: [3, 4, 2, 5, 3],
  timeDeltas: [0, 2000, 2000, 1000, 4000],
};

const HEAP = {
  head: {
    callFrame: frame('(root)'),
    selfSize: 0,
    id: 1,
    children: [
      {
        callFrame: frame('main', 'node:internal/main', 0),
        selfSize: 10,
        id: 2,
        children: [{ callFrame: HOT, selfSize: 131_072, id: 3, children: [] }],
      },
    ],
  },
  samples: [],
};

function convert(kind: ProfileKind, value: unknown): Profile {
  const json = JSON.stringify(value);
  return Profile.decode(gunzipSync(pprofOf({ kind, json, endWallMs: 1_700_000_010_000, seconds: 10 })));
}

/** `hot < main: [1, 2]` of each sample. */
function samplesOf({ sample, location, function: functions, stringTable: { strings } }: Profile): string[] {
  return sample.map(({ locationId, value }) => {
    const stack = locationId.map((id) => {
      const at = location.find((each) => each.id === id)?.line[0];
      const { name, filename } = functions.find((each) => each.id === at?.functionId) ?? {};
      return `${strings[Number(name)]} ${strings[Number(filename)]}:${at?.line}`;
    });
    return `${stack.join(' < ')}: ${value.map(Number).join(' ')}`;
  });
}

const typesOf = ({ sampleType, stringTable: { strings } }: Profile): string[] =>
  sampleType.map(({ type, unit }) => `${strings[Number(type)]}/${strings[Number(unit)]}`);

describe('pprofOf', () => {
  it('gives each stack the time until the next sample, and leaves out the time in which nothing ran', () => {
    const profile = convert('cpu', CPU);
    expect(typesOf(profile)).toEqual(['samples/count', 'cpu/nanoseconds']);
    expect(samplesOf(profile)).toEqual([
      'hot /app/a b.ts:10 < main node:internal/main:1: 2 3000000',
      'main node:internal/main:1: 1 1000000',
      '(anonymous:42) /app/a b.ts:42: 1 4000000',
    ]);
    expect([Number(profile.period), Number(profile.durationNanos)]).toEqual([1e6, 10e9]);
    expect(BigInt(profile.timeNanos)).toBe(1_700_000_000_000_000_000n);
  });

  it.each<[ProfileKind, string]>([
    ['heap', 'inuse_space/bytes'],
    ['allocs', 'alloc_space/bytes'],
  ])('%s: bytes by stack', (kind, type) => {
    const profile = convert(kind, HEAP);
    expect(typesOf(profile)).toEqual([type]);
    expect(samplesOf(profile)).toEqual([
      'main node:internal/main:1: 10',
      'hot /app/a b.ts:10 < main node:internal/main:1: 131072',
    ]);
  });

  it('ends with samples in the wrong order, unknown nodes, and nodes that are their own parents', () => {
    const [root, main] = CPU.nodes;
    const nodes = [root, { ...main, children: [1, 2] }];
    const profile = convert('cpu', { ...CPU, nodes, samples: [2, 99], timeDeltas: [0, -5000] });
    expect(profile.sample).toHaveLength(1);
    expect(profile.sample[0]?.value.map(Number)).toEqual([1, 0]);
    expect(profile.sample[0]?.locationId.length).toBeLessThanOrEqual(512);
  });

  it('refuses in one line what is no profile', () => {
    expect(() => convert('cpu', { ...CPU, samples: ['x'] })).toThrow(/^it is wrong at samples[.]0: [^\n]*$/);
    expect(() => convert('heap', CPU)).toThrow(/^it is wrong at head: /);
    const text = `{"head":${'{"callFrame":{"functionName":"","url":"","lineNumber":1},"selfSize":1,"children":['.repeat(1e5)}${']}'.repeat(1e5)}}`;
    expect(() => pprofOf({ kind: 'heap', json: text, endWallMs: 0, seconds: 1 })).toThrow(RangeError);
  });
});
