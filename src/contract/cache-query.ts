import {
  formatFieldSelector,
  formatLabelSelector,
  type OwnerIdentity,
  parseFieldSelector,
  parseLabelSelector,
  SelectorError,
} from '../core/index.ts';
import { isIndexSpec } from './cache-layout.ts';
import type { Selection } from './selection.ts';

/**
 * Query parameters of the cache API that Kubernetes' API lacks: they read by index. No Kubernetes client sends them,
 * and an apiserver would ignore them.
 */
export const CONTROLLED_BY = 'levelhook-controlledBy';
const ORPHANS = 'levelhook-orphans';
const INDEX = 'levelhook-index';
/**
 * For a read of one object: names an observed field. The answer says in this header how long its value is unchanged.
 */
export const UNCHANGED = 'levelhook-unchanged';
/** With `UNCHANGED`: the item of the field's list that is asked for, as `observedItem` names it. */
export const UNCHANGED_ITEM = 'levelhook-unchanged-item';
export const UNCHANGED_HEADER = 'levelhook-unchanged-seconds';

/** In an answer from one view: the position of the view (`cache-layout`). */
export const POSITION_HEADER = 'levelhook-cache-position';

/** The query of a list, without its namespace, which is part of the path. */
export function encodeSelection({ controlledBy, orphansIn, index, labels, fields }: Selection): URLSearchParams {
  const query = new URLSearchParams();
  if (labels && labels.length > 0) query.set('labelSelector', formatLabelSelector(labels));
  if (fields && fields.length > 0) query.set('fieldSelector', formatFieldSelector(fields));
  if (controlledBy !== undefined) query.set(CONTROLLED_BY, encodeOwner(controlledBy));
  if (orphansIn !== undefined) query.set(ORPHANS, orphansIn);
  if (index === 'labels') query.set(INDEX, index);
  else if (index !== undefined) query.set(INDEX, `${index.spec}=${index.value}`);
  return query;
}

/** @throws SelectorError with the apiserver's message, where it has one */
export function decodeSelection(query: URLSearchParams, namespace: string | undefined): Selection {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '');
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '');
  const controlledBy = query.get(CONTROLLED_BY);
  const orphansIn = query.get(ORPHANS);
  const index = query.get(INDEX);
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(labels.length > 0 ? { labels } : {}),
    ...(fields.length > 0 ? { fields } : {}),
    ...(controlledBy === null ? {} : { controlledBy: decodeOwner(controlledBy) }),
    ...(orphansIn === null ? {} : { orphansIn }),
    ...(index === null ? {} : { index: decodeIndex(index) }),
  };
}

const encodeOwner = ({ metadata: { namespace = '', uid } }: OwnerIdentity): string => `${namespace}/${uid}`;

/** A UID alone is refused: it would also select objects in other namespaces whose authors claim the same owner. */
function decodeOwner(text: string): OwnerIdentity {
  const slash = text.indexOf('/');
  if (slash < 0) {
    throw new SelectorError(`${CONTROLLED_BY} must be NAMESPACE/UID of the owner, or /UID of a cluster-scoped owner`);
  }
  const namespace = text.slice(0, slash);
  return { metadata: { ...(namespace ? { namespace } : {}), uid: text.slice(slash + 1) } };
}

function decodeIndex(text: string): NonNullable<Selection['index']> {
  if (text === 'labels') return text;
  const equals = text.indexOf('=');
  const spec = text.slice(0, equals);
  if (equals < 0 || !isIndexSpec(spec)) {
    throw new SelectorError(`${INDEX} must be labels, field:PATH=VALUE, label:KEY=VALUE or annotation:KEY=VALUE`);
  }
  return { spec, value: text.slice(equals + 1) };
}
