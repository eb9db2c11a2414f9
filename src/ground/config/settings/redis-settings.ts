import { z } from 'zod';
import { messageOf } from '../../../core/index.ts';
import { parseRedisUrl } from '../../../contract/node/redis-url.ts';
import { setting } from './setting.ts';

/** The Redis that has cache and queues, and the place of the data in it. */
export const redisSettings = {
  redisUrl: setting(
    'REDIS_URL',
    z.string().superRefine(checkRedisUrl).prefault('redis://127.0.0.1:6379'),
    'where cache and queues live: a server, Sentinels or a cluster, see below',
  ),
  // Read again when they change.
  redisCaFile: setting(
    'LEVELHOOK_REDIS_CA_FILE',
    z.string().optional(),
    'PEM file of the certificate authorities of Redis at `rediss` URLs',
    "Node's authorities",
  ),
  redisCertFile: setting(
    'LEVELHOOK_REDIS_CERT_FILE',
    z.string().optional(),
    'PEM file of a client certificate for Redis',
  ),
  redisKeyFile: setting('LEVELHOOK_REDIS_KEY_FILE', z.string().optional(), 'PEM file of its key'),
  redisUsernameFile: setting(
    'LEVELHOOK_REDIS_USERNAME_FILE',
    z.string().optional(),
    'file that holds the ACL user for Redis',
    'that of the URL',
  ),
  redisPasswordFile: setting(
    'LEVELHOOK_REDIS_PASSWORD_FILE',
    z.string().optional(),
    'file that holds its password',
    'that of the URL',
  ),
  redisSentinelUsernameFile: setting(
    'LEVELHOOK_REDIS_SENTINEL_USERNAME_FILE',
    z.string().optional(),
    'file that holds the ACL user for the Sentinels',
  ),
  redisSentinelPasswordFile: setting(
    'LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE',
    z.string().optional(),
    'file that holds its password',
  ),
  keyPrefix: setting(
    'LEVELHOOK_KEY_PREFIX',
    z
      .string()
      .regex(/^[A-Za-z0-9_-]+$/, 'may hold letters, digits, - and _ only')
      .prefault('levelhook'),
    'the first part of each key in Redis; gateways with different ones do not see each other',
  ),
  clusterId: setting(
    'LEVELHOOK_CLUSTER_ID',
    z
      .string()
      .regex(/^[A-Za-z0-9_.-]+$/, 'may hold letters, digits, dots, - and _ only')
      .optional(),
    "the cluster's name in each key",
    'UID of `kube-system`',
  ),
};

function checkRedisUrl(url: string, context: z.RefinementCtx): void {
  try {
    parseRedisUrl(url);
  } catch (error) {
    context.addIssue({ code: 'custom', message: messageOf(error), input: undefined });
  }
}
