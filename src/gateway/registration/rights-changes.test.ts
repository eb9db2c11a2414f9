import { describe, expect, it } from 'vitest';
import { RightsChanges } from './rights-changes.ts';

const account = { namespace: 'shop', name: 'reader' };
const everywhere = { account, namespaces: new Set<string>() };
const inShop = { account, namespaces: new Set(['shop', 'stock']) };

describe('changes of rights', () => {
  it.each<[string, (changes: RightsChanges) => void, boolean, boolean]>([
    ['of its account', (changes) => changes.ofAccounts(['shop/reader']), true, true],
    ['of all accounts of its namespace', (changes) => changes.ofAccounts(['shop/*']), true, true],
    ['of all accounts', (changes) => changes.ofAll(), true, true],
    ['of an account of its name in another namespace', (changes) => changes.ofAccounts(['stock/reader']), false, false],
    ['of another account', (changes) => changes.ofAccounts(['shop/writer', 'stock/*']), false, false],
    ['in a namespace that it names', (changes) => changes.inNamespace('stock'), false, true],
    ['in a namespace that it does not name', (changes) => changes.inNamespace('mall'), false, false],
    ['in any namespace', (changes) => changes.inAnyNamespace(), false, true],
    ['of nothing', () => {}, false, false],
  ])('%s', (_, change, ofEverywhere, ofNamespaces) => {
    const changes = new RightsChanges();
    change(changes);
    expect([changes.concern(everywhere), changes.concern(inShop)]).toEqual([ofEverywhere, ofNamespaces]);
  });

  it('are empty until there is one', () => {
    const changes = new RightsChanges();
    changes.ofAccounts([]);
    expect(changes.isEmpty).toBe(true);
    changes.inAnyNamespace();
    expect(changes.isEmpty).toBe(false);
  });
});
