/**
 * The registry's field with the time of the last loss, next to `runId`. Runs that started before this time may be on
 * record in an earlier Redis process only, or in none. Milliseconds of the gateways' clock; 0: there are no such runs.
 */
export const LOST_FIELD = 'lostAt';

/** Prefix of a gateway's field in the registry; its id follows. The value is JSON: see `Announcement`. */
export const ON_RECORD_FIELD = 'onRecord:';

/** The registry's field with the identity of the gateway that leads: see `LeaderRecord`. */
export const LEADER_FIELD = 'leader';

/**
 * Prefix of a gateway's field in the registry; its identity in the Lease follows. The value is JSON: see
 * `ReplicaRecord`.
 */
export const REPLICA_FIELD = 'replica:';

/** The registry's field with the version of the data: see `checkDataVersion`. */
export const DATA_VERSION_FIELD = 'dataVersion';

/** The registry's record of the last runs of a removed controller. */
export const CONTROLLER_FIELD = 'controller:';

/** The registry's record of the last runs of a removed controller. */
export interface Removal {
  /** None of its runs began later. */
  readonly atMs: number;
  /** When its last run is over; undefined when the gateway that removed it did not know its settings. */
  readonly endMs?: number;
}

/** The field's value after all other data of the controller was removed. */
export function removedValue({ atMs, endMs }: Removal): string {
  return endMs === undefined ? `removed:${atMs}` : `removed:${atMs}:${endMs}`;
}

/** The names of the controllers in a registry that were not removed. */
export function controllersIn(registry: Readonly<Record<string, string>>): string[] {
  return Object.entries(registry).flatMap(([field, value]) =>
    field.startsWith(CONTROLLER_FIELD) && !removalOf(value) ? [field.slice(CONTROLLER_FIELD.length)] : [],
  );
}

/** Undefined for the value of a controller that was not removed. */
export function removalOf(value: string): Removal | undefined {
  const [, at, end] = /^removed:([0-9]{1,15})(?::([0-9]{1,15}))?$/.exec(value) ?? [];
  if (at === undefined) return undefined;
  return { atMs: Number(at), ...(end === undefined ? {} : { endMs: Number(end) }) };
}
