import { describe, expect, it } from 'vitest';
import { KeyRing } from '../../../contract/node/key-ring.ts';
import { TokenKeys } from './token-keys.ts';

const key = (id: string) => ({ id, bytes: new Uint8Array(32).fill(id.charCodeAt(0)) });
const cluster = { keyPrefix: 'levelhook', clusterId: 'c' };
const clock = { now: () => 1_000_000 };
const gateway = (ids: readonly string[], of: Partial<typeof cluster> = {}) =>
  new TokenKeys({
    ring: ids.length === 0 ? undefined : new KeyRing(ids.map(key)),
    cluster: { ...cluster, ...of },
    clock,
  });
const claims = { controller: 'web', scope: { 'v1/Pod': '*' } } as const;
const sign = (keys: TokenKeys): string => keys.sign('levelhook-cache', claims, 2_000_000);
const verify = (keys: TokenKeys, token: string) => keys.verify('levelhook-cache', token);

describe('the signing keys of tokens', () => {
  it('are the same in each gateway that has the same keys of the cache', () => {
    expect(verify(gateway(['a']), sign(gateway(['a'])))).toEqual({ ...claims, expiresAt: 2000 });
  });

  it('are rotated with the keys of the cache: each key verifies, the first one signs', () => {
    const [before, announced, rotated, after] = [['a'], ['a', 'b'], ['b', 'a'], ['b']].map((ids) => gateway(ids));
    if (!before || !announced || !rotated || !after) throw new Error('there are four');
    const [old, fresh] = [sign(announced), sign(rotated)];
    for (const each of [before, announced, rotated]) verify(each, old);
    for (const each of [announced, rotated, after]) verify(each, fresh);
    expect(() => verify(after, old)).toThrow('unknown key');
    expect(() => verify(before, fresh)).toThrow('unknown key');
  });

  it('are others for another cluster, another key prefix, another audience, and another key of the same id', () => {
    const token = sign(gateway(['a']));
    for (const other of [{ clusterId: 'd' }, { keyPrefix: 'other' }]) {
      expect(() => verify(gateway(['a'], other), token)).toThrow('does not match');
    }
    for (const audience of ['levelhook-kubernetes', 'levelhook-callback'] as const) {
      expect(() => gateway(['a']).verify(audience, token)).toThrow('does not match');
    }
    const same = new TokenKeys({ ring: new KeyRing([{ ...key('b'), id: 'a' }]), cluster, clock });
    expect(() => verify(same, token)).toThrow('does not match');
  });

  it('for callbacks are those of another ring when there are no keys of the cache', () => {
    const of = (id: string, ring?: KeyRing) =>
      new TokenKeys({ ring, callbackRing: new KeyRing([key(id)]), cluster, clock });
    const token = of('s').sign('levelhook-callback', claims, 2_000_000);
    expect(of('s').verify('levelhook-callback', token)).toMatchObject(claims);
    expect(() => of('s', new KeyRing([key('a')])).verify('levelhook-callback', token)).toThrow('unknown key');
    expect(() => verify(of('s'), sign(of('s')))).toThrow('does not match');
  });

  it('are known to one process alone when it has no keys of the cache', () => {
    const [one, other] = [gateway([]), gateway([])];
    const token = sign(one);
    expect(verify(one, token)).toMatchObject(claims);
    expect(() => verify(other, token)).toThrow('does not match');
  });
});
