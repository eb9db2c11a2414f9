import { KeyRing } from '../../src/contract/node/key-ring.ts';

const bytes = new Uint8Array(32).fill(7);

/** `LEVELHOOK_CACHE_KEYS` of gateways whose tokens are good at each of them. */
export const CACHE_KEYS = `test:${Buffer.from(bytes).toString('base64')}`;

/** The same keys, for a test that makes tokens. */
export const cacheKeyRing = (): KeyRing => new KeyRing([{ id: 'test', bytes }]);
