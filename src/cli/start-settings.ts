import { withoutPassword } from '../contract/node/redis-url.ts';
import { variableOf } from '../ground/config/config.ts';

/** Settings that `levelhook start` gives its gateway, and a line for each that may surprise. */
export interface StartSettings {
  readonly variables: Readonly<Record<string, string>>;
  readonly lines: readonly string[];
}

/** The prefix of the keys in Redis, and of a Lease, that `levelhook start` uses on a cluster that exists. */
const PREFIX = 'levelhook-start';

/**
 * The settings of a gateway on a cluster that exists, or on a control plane of its own. The gateway of `levelhook
 * start` takes part in no election, so it must neither run the functions that an installed gateway runs, nor write that
 * gateway's data.
 */
export function startSettings(
  env: Readonly<Record<string, string | undefined>>,
  { isOwnCluster }: { readonly isOwnCluster: boolean },
): StartSettings {
  const redis = env[variableOf('redisUrl')];
  const [declared, prefix] = [variableOf('reconcileFunctions'), variableOf('keyPrefix')];
  // An empty variable is an unset one, as for the gateway.
  const isOff = !isOwnCluster && !env[declared];
  const isApart = !isOwnCluster && !env[prefix];
  const keys = isApart ? `, with keys of its own: ${prefix} is ${PREFIX}` : '';
  return {
    variables: { ...(isOff ? { [declared]: 'none' } : {}), ...(isApart ? { [prefix]: PREFIX } : {}) },
    lines: [
      ...(redis ? [`Redis: ${withoutPassword(redis)}, as ${variableOf('redisUrl')} says${keys}`] : []),
      ...(isOff ? [`the ReconcileFunctions of the cluster are not run: ${declared}=all runs them here, too`] : []),
    ],
  };
}
