import { withoutPassword } from '../contract/node/redis-url.ts';
import { variableOf } from '../ground/config/config.ts';

/** Settings that `levelhook start` gives its gateway, and a line for each that may surprise. */
export interface StartSettings {
  readonly variables: Readonly<Record<string, string>>;
  readonly lines: readonly string[];
}

/**
 * The settings of a gateway on a cluster that exists, or on a control plane of its own. The gateway of `levelhook
 * start` takes part in no election, so it must not run the functions that an installed gateway runs.
 */
export function startSettings(
  env: Readonly<Record<string, string | undefined>>,
  { isOwnCluster }: { readonly isOwnCluster: boolean },
): StartSettings {
  const redis = env[variableOf('redisUrl')];
  const declared = variableOf('reconcileFunctions');
  // An empty variable is an unset one, as for the gateway.
  const isOff = !isOwnCluster && !env[declared];
  return {
    variables: isOff ? { [declared]: 'none' } : {},
    lines: [
      ...(redis ? [`Redis: ${withoutPassword(redis)}, as ${variableOf('redisUrl')} says`] : []),
      ...(isOff ? [`the ReconcileFunctions of the cluster are not run: ${declared}=all runs them here, too`] : []),
    ],
  };
}
