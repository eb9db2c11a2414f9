import { lookup, type LookupAddress, type LookupOptions } from 'node:dns';
import { TenantTurns } from '../../../core/index.ts';

/** All addresses of a name, as `dns.lookup` finds them. */
export type LookupAll = (
  name: string,
  options: LookupOptions,
  callback: (error: Error | null, found: readonly LookupAddress[]) => void,
) => void;

/**
 * Lookups at a time for all tenants. libuv looks up names in half of its 64 threads (`UV_THREADPOOL_SIZE` in
 * `cli/levelhook.js`), so four remain for the gateway's own lookups.
 */
const AT_ONCE = 28;
const OF_TENANT = 4;
/** undici gives a connection up after this. */
const PATIENCE_MS = 10_000;

const turns = new TenantTurns(AT_ONCE, OF_TENANT);

const system: LookupAll = (name, options, callback) =>
  lookup(name, { ...options, all: true }, (error, found) => callback(error, found));

/**
 * Looks up a name for a tenant, four names of a tenant at a time. A lookup blocks a thread, for 10 s if the name's
 * server does not answer. With the two threads of Node's default, eight such names of one tenant delayed the
 * connections to all other functions by 40 s.
 * @param find Default: `dns.lookup`.
 */
export function lookupInTurn(
  tenant: string,
  name: string,
  options: LookupOptions,
  callback: Parameters<LookupAll>[2],
  find = system,
): void {
  const giveUpMs = performance.now() + PATIENCE_MS;
  void turns.run(tenant, async () => {
    if (performance.now() > giveUpMs) {
      return callback(new Error(`${name} was not looked up: earlier names take too long`), []);
    }
    return new Promise<void>((resolve) => {
      const answer: typeof callback = (error, found) => {
        resolve();
        callback(error, found);
      };
      try {
        find(name, options, answer);
      } catch (error) {
        answer(error as Error, []);
      }
    });
  });
}
