import * as fc from 'fast-check';
import type { CheckpointName } from '../../../src/core/index.ts';
import type { ListFault, WatchCut } from '../../harness/model-apiserver.ts';
import { NAMES, NAMESPACES } from './kinds.ts';

/** One step of a history. `kind` is the number of a kind. */
export type Step =
  | { readonly do: 'write' | 'delete' | 'replace'; readonly kind: number; readonly key: Key; readonly variant: number }
  | { readonly do: 'pause' | 'resume' | 'bookmark' | 'compact' | 'relist'; readonly kind: number }
  | { readonly do: 'cut'; readonly kind: number; readonly how: WatchCut }
  | { readonly do: 'fail-list'; readonly kind: number; readonly fault: ListFault }
  | { readonly do: 'repeat'; readonly kind: number; readonly count: number }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'settle' | 'until-stopped' | 'kill' | 'restart' | 'flush' | 'snapshot' | 'rollback' }
  | { readonly do: 'restore'; readonly back: number }
  /** The next time that the gateway reaches `point` for the `nth` time, it ends there. */
  | { readonly do: 'stop-at'; readonly point: CheckpointName; readonly nth: number; readonly zombie: boolean };

export interface Key {
  readonly namespace: string;
  readonly name: string;
}

export const POINTS: readonly CheckpointName[] = [
  'apply:before-script',
  'apply:after-script',
  'relay:before-add',
  'relay:after-add',
  'relay:after-delete',
  'list:begun',
  'list:before-deletes',
  'list:before-version',
  'initial:between-keys',
  'initial:before-mark',
  'recovery:before-relist',
  'recovery:before-renew',
];

const kind = fc.nat(2);
const key = fc.record({ namespace: fc.constantFrom(...NAMESPACES), name: fc.constantFrom(...NAMES) });
const variant = fc.nat(47);
const stopAt = fc.record({
  do: fc.constant('stop-at' as const),
  point: fc.constantFrom(...POINTS),
  nth: fc.integer({ min: 1, max: 3 }),
  zombie: fc.boolean(),
});

const write = fc.record({ do: fc.constantFrom('write', 'write', 'write', 'delete', 'replace'), kind, key, variant });

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 20, arbitrary: write },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('pause', 'resume', 'bookmark'), kind }) as fc.Arbitrary<Step>,
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('compact', 'relist'), kind }) as fc.Arbitrary<Step> },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('cut' as const),
      kind,
      how: fc.constantFrom<WatchCut>('destroy', 'end', 'half-line', 'garbage', 'expired', 'throttled'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('fail-list' as const),
      kind,
      fault: fc.constantFrom<ListFault>('stale', 'error', 'throttle', 'expire-token', 'refuse-stream', 'cut'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('repeat' as const), kind, count: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(8) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('settle', 'kill', 'restart') }) as fc.Arbitrary<Step> },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('flush', 'snapshot', 'rollback') }) as fc.Arbitrary<Step> },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restore' as const), back: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 4, arbitrary: stopAt },
);

const cut: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('cut' as const),
  kind,
  how: fc.constantFrom<WatchCut>('destroy', 'end'),
});
const restore: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('restore' as const),
  back: fc.integer({ min: 1, max: 8 }),
});

export interface History {
  readonly steps: readonly Step[];
  /** For all that the model and the order of things leave to chance. */
  readonly seed: number;
}

export const histories: fc.Arbitrary<History> = fc.record({
  steps: fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
  seed: fc.nat(1_000_000),
});

/** etcd restored again and again, with watches cut just before: what is between a look and a watch. */
export const historiesOfRestores: fc.Arbitrary<History> = fc.record({
  steps: fc.array(fc.oneof({ weight: 2, arbitrary: restore }, cut, write), {
    minLength: 5,
    maxLength: 20,
    size: 'max',
  }),
  seed: fc.nat(1_000_000),
});

/** A history that is sure to reach the point, and ends the gateway there. */
export function historyThrough(point: CheckpointName, zombie: boolean): History {
  const changes: Step[] = [0, 1, 2].flatMap((kind) => [
    { do: 'write', kind, key: { namespace: 'a', name: 'x' }, variant: 5 },
    { do: 'write', kind, key: { namespace: 'a', name: 'y' }, variant: 17 },
    { do: 'delete', kind, key: { namespace: 'a', name: 'x' }, variant: 0 },
    { do: 'replace', kind, key: { namespace: 'a', name: 'y' }, variant: 6 },
  ]);
  // Every point lies on the way from lost data back.
  const loss: Step[] = point.startsWith('apply') || point.startsWith('relay') ? [] : [{ do: 'flush' }];
  const end: Step[] = [{ do: 'stop-at', point, nth: 1, zombie }, ...loss, ...changes, { do: 'until-stopped' }];
  return { steps: [...changes, { do: 'settle' }, ...end, ...changes, { do: 'settle' }, ...end], seed: 1 };
}

/** A pod that changes while a Set begins to select it, again and again. */
export function historyOfRaces(): History {
  const pod = { kind: 1, key: { namespace: 'a', name: 'x' }, variant: 4 } as const;
  const set = { kind: 0, key: { namespace: 'a', name: 'y' } } as const;
  const round: Step[] = [
    { do: 'write', ...set, variant: 8 },
    { do: 'settle' },
    { do: 'write', ...pod },
    { do: 'write', ...set, variant: 4 },
    { do: 'settle' },
  ];
  return { steps: Array.from({ length: 5 }, () => round).flat(), seed: 1 };
}

/** The server is restored while a watch that it has throttled waits, at a version that was there before. */
export function historyOfThrottledRestore(): History {
  const steps: Step[] = [
    { do: 'restore', back: 7 },
    { do: 'write', kind: 0, key: { namespace: 'b', name: 'y' }, variant: 23 },
    { do: 'settle' },
    { do: 'cut', kind: 0, how: 'throttled' },
    { do: 'restore', back: 2 },
  ];
  return { steps, seed: 318_416 };
}

/**
 * The server is restored, and then Redis comes back with what it held before: an event sets the view's version to the
 * server's, while objects of the other past are above it.
 */
export function historyOfTwoRestores(): History {
  const write = (name: 'x' | 'y' | 'z', variant: number): Step => ({
    do: 'write',
    kind: 1,
    key: { namespace: 'b', name },
    variant,
  });
  const steps: Step[] = [
    write('y', 1),
    write('z', 2),
    write('y', 3),
    write('z', 4),
    { do: 'settle' },
    { do: 'snapshot' },
    { do: 'restore', back: 7 },
    { do: 'settle' },
    { do: 'rollback' },
    write('x', 5),
    { do: 'wait', ms: 30 },
    { do: 'settle' },
  ];
  return { steps, seed: 7835 };
}

/**
 * The server is restored and gives the version of a lost object to another one of its name. Then Redis comes back with
 * the lost object.
 */
export function historyOfOneVersionTwice(): History {
  const x = { kind: 1, key: { namespace: 'b', name: 'x' } } as const;
  const steps: Step[] = [
    { do: 'write', kind: 1, key: { namespace: 'b', name: 'y' }, variant: 1 },
    { do: 'settle' },
    { do: 'write', ...x, variant: 2 },
    { do: 'settle' },
    { do: 'snapshot' },
    { do: 'restore', back: 1 },
    { do: 'write', ...x, variant: 3 },
    { do: 'settle' },
    { do: 'rollback' },
    { do: 'settle' },
  ];
  return { steps, seed: 1 };
}

/** One change, and the gateway ends on its way: nothing that comes later can make up for what is lost. */
export function historyOfOneChange(point: CheckpointName, nth: number): History {
  const write: Step = { do: 'write', kind: 0, key: { namespace: 'a', name: 'y' }, variant: 8 };
  const steps: Step[] = [
    { do: 'settle' },
    { do: 'stop-at', point, nth, zombie: false },
    write,
    { do: 'until-stopped' },
  ];
  return { steps: [...steps, ...steps], seed: 1 };
}
