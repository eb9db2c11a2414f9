import { expect, it } from 'vitest';
import { readConfig } from '../ground/config/config.ts';
import { startSettings } from './start-settings.ts';

const OFF = 'the ReconcileFunctions of the cluster are not run: LEVELHOOK_RECONCILE_FUNCTIONS=all runs them here, too';

it.each<[string, boolean, Record<string, string>, string, string[]]>([
  ['no ReconcileFunction of a cluster that exists', false, {}, 'none', [OFF]],
  ['none if the variable is empty', false, { LEVELHOOK_RECONCILE_FUNCTIONS: '' }, 'none', [OFF]],
  ['all if the person says so', false, { LEVELHOOK_RECONCILE_FUNCTIONS: 'all' }, 'all', []],
  ['a selection of the person', false, { LEVELHOOK_RECONCILE_FUNCTIONS: 'a=b' }, 'a=b', []],
  ['all on its own control plane', true, {}, 'all', []],
  ['none on its own control plane if the person says so', true, { LEVELHOOK_RECONCILE_FUNCTIONS: 'none' }, 'none', []],
])('the gateway of levelhook start runs %s', (_, isOwnCluster, env, expected, lines) => {
  const settings = startSettings(env, { isOwnCluster });
  expect(readConfig({ ...env, ...settings.variables }).reconcileFunctions).toBe(expected);
  expect(settings.lines).toEqual(lines);
});

it.each<[string, boolean, Record<string, string>, string]>([
  ['are not those of a gateway that is installed in the cluster', false, {}, 'levelhook-start'],
  ['have a prefix of their own if the variable is empty', false, { LEVELHOOK_KEY_PREFIX: '' }, 'levelhook-start'],
  ['have the prefix of the person', false, { LEVELHOOK_KEY_PREFIX: 'levelhook' }, 'levelhook'],
  ['have the usual prefix on its own control plane', true, {}, 'levelhook'],
])('the keys in Redis of levelhook start %s', (_, isOwnCluster, env, prefix) => {
  const redis = { REDIS_URL: 'redis://10.0.0.1' };
  const { variables, lines } = startSettings({ ...env, ...redis }, { isOwnCluster });
  expect(readConfig({ ...env, ...variables }).keyPrefix).toBe(prefix);
  expect(lines[0]?.includes('LEVELHOOK_KEY_PREFIX is levelhook-start')).toBe(prefix === 'levelhook-start');
});

it.each([
  ['redis://10.0.0.1', 'Redis: redis://10.0.0.1:6379, as REDIS_URL says'],
  ['rediss://me:hidden@redis.example.com:6380/2', 'Redis: rediss://***@redis.example.com:6380/2, as REDIS_URL says'],
  ['redis://:hid%2Fden@[::1]', 'Redis: redis://***@[::1]:6379, as REDIS_URL says'],
])('levelhook start names the Redis of REDIS_URL without its password: %s', (url, line) => {
  expect(startSettings({ REDIS_URL: url }, { isOwnCluster: true }).lines).toEqual([line]);
});
