import { cel, labelChanged, or } from 'levelhook/function';

const statuses = (of: string): string =>
  `(has(${of}.status) && has(${of}.status.conditions) ? ${of}.status.conditions.map(c, c.type + c.status) : [])`;
const member = (of: string, path: string, parent = 'spec'): string =>
  `(has(${of}.${parent}) && has(${of}.${parent}.${path}) ? ${of}.${parent}.${path} : [])`;
const differs = (part: (of: string) => string): string => `${part('object')} != ${part('oldObject')}`;

/**
 * Added and deleted nodes, and changes of labels, taints, `unschedulable`, and the status of conditions. No heartbeats.
 */
export const nodeChanged = or(
  labelChanged,
  cel(`oldObject == null || object.spec != oldObject.spec || ${differs(statuses)}`),
);

/** Added and deleted nodes, and changes of taints. */
export const taintsChanged = cel(`oldObject == null || ${differs((of) => member(of, 'taints'))}`);

/** Added and deleted pods, and pods that are bound to a node or change their tolerations. */
export const bindingChanged = cel(
  `oldObject == null || has(object.spec.nodeName) != has(oldObject.spec.nodeName) || ${differs((of) => member(of, 'tolerations'))}`,
);
