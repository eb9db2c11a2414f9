/** A controller's field in the registry: this and its name. The value is `1`, or tells when it was removed. */
export const CONTROLLER_FIELD = 'controller:';

const REMOVED = 'removed';

/** The field's value when everything else of the controller is gone. */
export function removedValue(nowMs: number): string {
  return `${REMOVED}:${nowMs}`;
}

export function isRemoved(value: string): boolean {
  return value === REMOVED || value.startsWith(`${REMOVED}:`);
}

/**
 * When a controller was removed: none of its runs began later. Undefined for one that was not removed, or by a gateway of a
 * version that did not write it down.
 */
export function removedAtMs(value: string): number | undefined {
  const [, text] = /^removed:([0-9]{1,15})$/.exec(value) ?? [];
  return text === undefined ? undefined : Number(text);
}
