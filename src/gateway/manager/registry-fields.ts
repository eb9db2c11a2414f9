/**
 * The registry's field beside `runId`: of runs that started before this time some may be on record in no Redis process,
 * or in an earlier one. Milliseconds of the gateways' clock; 0: none.
 */
export const LOST_FIELD = 'lostAt';

/** The registry's field of a gateway: this and its id. The value is JSON: see `Announcement`. */
export const ON_RECORD_FIELD = 'onRecord:';

/** The registry's field with the identity of the gateway that leads: see `LeaderRecord`. */
export const LEADER_FIELD = 'leader';

/** A gateway's field in the registry: this and how the Lease calls it. The value is JSON: see `ReplicaRecord`. */
export const REPLICA_FIELD = 'replica:';

/** The registry's field with the version of the data: see `checkDataVersion`. */
export const DATA_VERSION_FIELD = 'dataVersion';

/** A controller's field in the registry: this and its name. The value is `1`, or tells that it was removed. */
export const CONTROLLER_FIELD = 'controller:';

/** The registry's record of the last runs of a removed controller. */
export interface Removal {
  /** None of its runs began later. */
  readonly atMs: number;
  /** When the last of them is over; undefined when the gateway that removed it did not know what it was. */
  readonly endMs?: number;
}

/** The field's value when everything else of the controller is gone. */
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
