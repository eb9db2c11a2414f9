import { expect, it } from 'vitest';
import { SelectorError } from '../core/index.ts';
import { decodeSelection, encodeSelection } from './cache-query.ts';

it.each([{ namespace: 'shop', uid: 'u' }, { uid: 'u' }])('an owner comes back as it was sent: %j', (metadata) => {
  expect(decodeSelection(encodeSelection({ controlledBy: { metadata } }), 'shop')).toEqual({
    namespace: 'shop',
    controlledBy: { metadata },
  });
});

it('refuses a UID that does not say whose: another namespace may have copied it', () => {
  const query = new URLSearchParams({ 'levelhook-controlledBy': 'u' });
  const ask = (namespace?: string) => decodeSelection(query, namespace);
  expect(() => ask()).toThrow(SelectorError);
  expect(() => ask('shop')).toThrow('levelhook-controlledBy must be NAMESPACE/UID');
});
