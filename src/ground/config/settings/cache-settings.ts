import { z } from 'zod';
import { isNamespace } from '../../../core/index.ts';
import { isSecureUrl } from '../../../contract/secure-url.ts';
import { COMPRESS_ABOVE } from '../../../contract/node/codec.ts';
import { number, setting, words } from './setting.ts';

/** Which data is cached, and how functions reach the cache and the apiserver. */
export const cacheSettings = {
  cacheFile: setting(
    'LEVELHOOK_CACHE_FILE',
    z.string().optional(),
    'YAML or JSON file that says what of each kind is cached, see below',
    'none: everything',
  ),
  cacheKeys: setting(
    'LEVELHOOK_CACHE_KEYS',
    words.prefault(''),
    'keys that Secrets are encrypted with and tokens are signed with, see below',
    'none: Secrets are refused',
  ),
  cacheKeysFile: setting('LEVELHOOK_CACHE_KEYS_FILE', z.string().optional(), 'file that holds these keys instead'),
  cacheCompressAbove: setting(
    'LEVELHOOK_CACHE_COMPRESS_ABOVE',
    z
      .union([z.literal('off').transform(() => Infinity), number.int().min(0)], 'must be a number of bytes, or off')
      .prefault(String(COMPRESS_ABOVE)),
    'bytes above which an object is compressed in Redis; `off`: never',
  ),
  redisUsers: setting(
    'LEVELHOOK_REDIS_USERS',
    words
      .refine(
        (names) => names.every((name) => name === '*' || (isNamespace(name) && !/^(true|false)$/.test(name))),
        'must name namespaces, separated by commas, or be * for all',
      )
      .prefault(''),
    'namespaces whose functions, with the configured ones, read Redis as users of their own, see below; `*`: all',
    'none: there are no users',
  ),
  // Triggers to functions at https or loopback URLs contain it, with a token.
  cacheUrl: setting(
    'LEVELHOOK_CACHE_URL',
    z
      .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
      .refine((url) => URL.canParse(url) && isSecureUrl(url), 'must be https, or on loopback: tokens are sent there')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'where functions reach the cache API and send callbacks: `https://…/cache`',
    'own address on loopback',
  ),
  apiserverUrl: setting(
    'LEVELHOOK_APISERVER_URL',
    z
      .url({ protocol: /^https?$/, error: 'must be an http:// or https:// URL' })
      .refine((url) => URL.canParse(url) && isSecureUrl(url), 'must be https, or on loopback: tokens are sent there')
      .transform((url) => url.replace(/\/+$/, ''))
      .optional(),
    'where functions with `credentials: token` reach the apiserver',
    "the server of the gateway's kubeconfig",
  ),
  cacheRequestsPerSecond: setting(
    'LEVELHOOK_CACHE_REQUESTS_PER_SECOND',
    number.min(1).prefault('1000'),
    'requests a second of a configured function, or of all functions of a namespace, to the cache API of a gateway process; twice as many at once',
  ),
  cacheListLimit: setting(
    'LEVELHOOK_CACHE_LIST_LIMIT',
    z.coerce.number('must be a number of objects').int().min(1).prefault('50000'),
    'objects in one answer of the cache API, when a client asks for no fewer',
  ),
};
