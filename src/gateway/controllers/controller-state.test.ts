import { expect, it } from 'vitest';
import { type ControllerFacts, controllerState, type ControllerStateWord, isWell } from './controller-state.ts';

const sizes = { queued: 0, running: 0, timers: 0, failing: 0, backlog: 0, waiting: 0, dead: 0 };
const quiet: ControllerFacts = { problems: [], remarks: [], pauses: [], circuit: undefined, sizes };
const paused = [{ scope: 'controller', sinceMs: 0 }] as const;

it.each<[ControllerStateWord, boolean, Partial<ControllerFacts>]>([
  ['idle', true, {}],
  ['busy', true, { sizes: { ...sizes, queued: 1 } }],
  ['failing', false, { sizes: { ...sizes, timers: 1, failing: 1 } }],
  ['failing', false, { sizes: { ...sizes, running: 3, failing: 1 } }],
  ['dead letters', false, { sizes: { ...sizes, dead: 1, failing: 1 } }],
  // A pause hides nothing that has failed.
  ['dead letters', false, { sizes: { ...sizes, dead: 1 }, pauses: paused }],
  ['paused', false, { pauses: paused }],
  ['partly paused', true, { pauses: [{ scope: 'namespace/a', sinceMs: 0 }] }],
  ['partly paused', true, { pauses: [{ scope: 'key/a/b', sinceMs: 0 }] }],
  ['problem', false, { problems: ['its view is not complete'] }],
  ['circuit open', false, { circuit: { sinceMs: 0, untilMs: 1 }, problems: ['refused'] }],
  ['remark', true, { remarks: ['an object is kept out'] }],
])('a controller is %s (well: %s): %o', (word, well, facts) => {
  const state = controllerState({ ...quiet, ...facts });
  expect(state).toBe(word);
  expect(isWell(state)).toBe(well);
});
