import { expect } from 'vitest';
import type { Resource } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import type { ObjectCodec } from '../../src/contract/node/codec.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import type { Redis } from '../../src/ground/redis/redis.ts';
import { eventually } from './eventually.ts';
import { uniqueName } from './levelhook.ts';

/**
 * An empty view under a key prefix that no other test has.
 * @param codec makes the codec for the prefix of the view. Default: a codec that encrypts nothing.
 */
export function createView(redis: Redis, resource: Resource, codec?: (prefix: string) => ObjectCodec): View {
  const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource, settings: 's' });
  return new View(redis, resource, { prefix }, codec?.(prefix));
}

/** Closes a view's connection to Redis, and waits until the view has noticed. @param admin another connection. */
export async function loseConnection(view: View, redis: Redis, admin: Redis): Promise<void> {
  const before = view.outbox.connection;
  await admin.client('KILL', 'ID', await redis.client('ID'));
  await eventually(async () => expect(view.outbox.connection).toBeGreaterThan(before));
}
