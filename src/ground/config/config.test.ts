import { expect, it } from 'vitest';
import { UserError } from '../../core/index.ts';
import { describedSettings, readConfig } from './config.ts';

it('without any variable all defaults hold, and an empty variable is an unset one', () => {
  const config = readConfig({});
  expect(config).toMatchObject({
    redisUrl: 'redis://127.0.0.1:6379',
    functionUrls: [],
    reviewMs: 60_000,
    port: 8787,
    resyncMs: 36_000_000,
    cacheCompressAbove: 16_384,
    redisUsers: [],
    apiserverLimits: { total: { perSecond: 200, burst: 400 }, perFlow: { perSecond: 20, burst: 30 } },
    leaseTiming: { leaseMs: 15_000, renewMs: 10_000, retryMs: 2000 },
    webhookTimes: { authorityMs: 365 * 86_400_000, certificateMs: 90 * 86_400_000 },
  });
  for (const unset of ['kubeconfig', 'clusterId', 'lease', 'cacheUrl', 'tls', 'webhookListen'] as const)
    expect(config[unset]).toBeUndefined();
  const empty = Object.fromEntries(describedSettings().map(({ variable }) => [variable, '']));
  expect(readConfig(empty)).toEqual(config);
});

it('takes each variable in its unit, and the command line wins', () => {
  const environment = {
    LEVELHOOK_FUNCTIONS: 'http://a:1 https://b,http://c',
    LEVELHOOK_DRAIN_SECONDS: '1.5',
    LEVELHOOK_PORT: '1',
    LEVELHOOK_LOG_TRIGGERS: 'true',
    LEVELHOOK_CACHE_COMPRESS_ABOVE: 'off',
    LEVELHOOK_ALLOWED_HOSTS: 'one',
    LEVELHOOK_CACHE_URL: 'https://two/cache//',
    LEVELHOOK_TLS_CERT_FILE: 'x.crt',
    LEVELHOOK_TLS_KEY_FILE: 'x.key',
    LEVELHOOK_WEBHOOK_LISTEN: '[::1]:9443',
    LEVELHOOK_WEBHOOK_TLS_CERT_FILE: 'y.crt',
    LEVELHOOK_WEBHOOK_TLS_KEY_FILE: 'y.key',
    LEVELHOOK_LEASE: 'here/gateway',
    LEVELHOOK_LEASE_SECONDS: '5',
    LEVELHOOK_LEASE_RENEW_SECONDS: '2.5',
    LEVELHOOK_LEASE_RETRY_SECONDS: '0.5',
    REDIS_URL: 'rediss+sentinel://me:pass@a,b/mymaster',
    LEVELHOOK_WEBHOOK_SERVICE: 'tools/gate',
    LEVELHOOK_WEBHOOK_SECRET: 'tools/certificate',
    LEVELHOOK_WEBHOOK_URL: 'https://127.0.0.1:9443/',
    LEVELHOOK_WEBHOOK_CA_DAYS: '10',
    LEVELHOOK_WEBHOOK_CERTIFICATE_DAYS: '1.5',
    LEVELHOOK_REDIS_CA_FILE: 'ca',
    LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE: 'password',
  };
  expect(readConfig(environment, { kubeconfig: 'file', port: 0 })).toMatchObject({
    functionUrls: ['http://a:1', 'https://b', 'http://c'],
    drainMs: 1500,
    port: 0,
    logTriggers: true,
    cacheCompressAbove: Infinity,
    allowedHosts: ['one', 'two'],
    cacheUrl: 'https://two/cache',
    tls: { certFile: 'x.crt', keyFile: 'x.key' },
    webhookListen: { host: '::1', port: 9443 },
    webhookTls: { certFile: 'y.crt', keyFile: 'y.key' },
    lease: { namespace: 'here', name: 'gateway' },
    leaseTiming: { leaseMs: 5000, renewMs: 2500, retryMs: 500 },
    webhookService: { namespace: 'tools', name: 'gate' },
    webhookSecret: { namespace: 'tools', name: 'certificate' },
    webhookUrl: 'https://127.0.0.1:9443',
    webhookTimes: { authorityMs: 864_000_000, certificateMs: 129_600_000 },
    redisUrl: 'rediss+sentinel://me:pass@a,b/mymaster',
    redisFiles: { caFile: 'ca', certFile: undefined, sentinelPasswordFile: 'password' },
    kubeconfig: 'file',
  });
});

it.each([
  ['REDIS_URL', 'redis://me:hid/den@a', 'is wrong: must have / ? # and @ of a password as %2F %3F %23 and %40.'],
  ['LEVELHOOK_KEY_PREFIX', 'a b', 'is wrong: may hold letters, digits, - and _ only.'],
  ['LEVELHOOK_FUNCTIONS', 'http://me:hidden@a', 'is wrong: must hold no user or password.'],
  ['LEVELHOOK_RECONCILE_FUNCTIONS', 'a=b=c', 'is wrong: must be all, none, or a label selector as kubectl takes it.'],
  ['LEVELHOOK_REVIEW_SECONDS', 'hidden', 'is wrong: must be a number of seconds.'],
  ['LEVELHOOK_REVIEW_SECONDS', '0.5', 'is wrong: must be a number of seconds.'],
  ['LEVELHOOK_API_TOKENS', 'hidden', 'is wrong: must hold tokens of at least 16 characters each.'],
  ['LEVELHOOK_CACHE_COMPRESS_ABOVE', 'x', 'is wrong: must be a number of bytes, or off.'],
  ['LEVELHOOK_CACHE_URL', 'http://gateway/cache', 'is wrong: must be https, or on loopback: tokens are sent there.'],
  ['LEVELHOOK_LEASE', 'levelhook', 'is wrong: must be off, or namespace/name of a Lease.'],
  ['LEVELHOOK_LEASE', 'a/b/c', 'is wrong: must be off, or namespace/name of a Lease.'],
  ['LEVELHOOK_LEASE_SECONDS', '15.5', 'is wrong: must be a whole number of seconds.'],
  ['LEVELHOOK_LEASE_SECONDS', '10', 'LEVELHOOK_LEASE_SECONDS must be greater than LEVELHOOK_LEASE_RENEW_SECONDS.'],
  [
    'LEVELHOOK_LEASE_RETRY_SECONDS',
    '9',
    'LEVELHOOK_LEASE_RENEW_SECONDS must be greater than 1.2 times LEVELHOOK_LEASE_RETRY_SECONDS.',
  ],
  ['LEVELHOOK_WEBHOOK_LISTEN', '9443', 'is wrong: must be host:port, such as 0.0.0.0:9443.'],
  ['LEVELHOOK_WEBHOOK_LISTEN', 'a:70000', 'is wrong: must be host:port, such as 0.0.0.0:9443.'],
  ['LEVELHOOK_WEBHOOK_LISTEN', '::1:9443', 'is wrong: must be host:port, such as 0.0.0.0:9443.'],
  [
    'LEVELHOOK_WEBHOOK_TLS_KEY_FILE',
    'x',
    'LEVELHOOK_WEBHOOK_TLS_CERT_FILE is not set: a certificate and its key belong together.',
  ],
  ['LEVELHOOK_WEBHOOK_SERVICE', 'levelhook', 'is wrong: must be namespace/name.'],
  ['LEVELHOOK_WEBHOOK_SECRET', 'a/B', 'is wrong: must be namespace/name.'],
  ['LEVELHOOK_WEBHOOK_URL', 'http://a', 'is wrong: must be an https:// URL.'],
  ['LEVELHOOK_WEBHOOK_URL', 'https://me:hidden@a', 'is wrong: must have no user, query or fragment.'],
  ['LEVELHOOK_WEBHOOK_CA_DAYS', '0', 'is wrong: must be a number of days.'],
  [
    'LEVELHOOK_WEBHOOK_CA_DAYS',
    '30',
    'LEVELHOOK_WEBHOOK_CERTIFICATE_DAYS is more than LEVELHOOK_WEBHOOK_CA_DAYS: lower it.',
  ],
  ['LEVELHOOK_TLS_CERT_FILE', 'x', 'LEVELHOOK_TLS_KEY_FILE is not set: a certificate and its key belong together.'],
])('%s=%s is refused in one sentence', (variable, value, sentence) => {
  const read = () => readConfig({ [variable]: value });
  expect(read).toThrow(new UserError(sentence.startsWith('LEVELHOOK') ? sentence : `${variable} ${sentence}`));
  expect(read).not.toThrow('hidden');
});

it('refuses users for functions on a Redis Cluster', () => {
  const environment = { REDIS_URL: 'redis+cluster://:hidden@a', LEVELHOOK_REDIS_USERS: '*' };
  expect(() => readConfig(environment)).toThrow(/^LEVELHOOK_REDIS_USERS cannot be set with a Redis Cluster: /);
  expect(() => readConfig(environment)).not.toThrow('hidden');
});
