import { expect, it } from 'vitest';
import { indexEntriesOf } from '../../../contract/cache-layout.ts';
import { isPaused, PAUSED_ANNOTATION, PAUSED_INDEX } from './paused.ts';

const entryOf = (annotations: Record<string, string>) => {
  const metadata = { name: 'k', namespace: 'n', uid: 'u', resourceVersion: '1', annotations };
  const indexEntries = indexEntriesOf({ apiVersion: 'v1', kind: 'ConfigMap', metadata }, [PAUSED_INDEX]);
  return { uid: 'u', resourceVersion: '1', terminating: false, indexEntries };
};

it('an object is paused by its annotation, whatever it says, but for false', () => {
  for (const value of ['true', '', 'until monday', 'False or not']) {
    expect(isPaused(entryOf({ [PAUSED_ANNOTATION]: value })), value).toBe(true);
  }
  expect(isPaused(entryOf({ [PAUSED_ANNOTATION]: 'false' }))).toBe(false);
  expect(isPaused(entryOf({ 'levelhook.dev/paused-by': 'me' }))).toBe(false);
  expect(isPaused(entryOf({}))).toBe(false);
  expect(isPaused(undefined)).toBe(false);
});
