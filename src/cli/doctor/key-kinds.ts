import { viewKeys } from '../../contract/cache-layout.ts';
import { queueKeys } from '../../gateway/controller/workqueue/queue-keys.ts';

/** The purposes of keys in Redis, in display order. */
export const KEY_KINDS = [
  'objects',
  'entries',
  'indexes',
  'orders',
  'outboxes',
  'views',
  'queues',
  'records',
  'histories',
  'BullMQ',
  'gateway',
  'other clusters',
  'other programs',
] as const;
export type KeyKind = (typeof KEY_KINDS)[number];

/** A key of a gateway, split: its cluster, and the rest. */
interface Parts {
  readonly clusterId: string;
  /** The part of the hash tag behind the cluster; empty for the gateway's own keys. */
  readonly owner: string;
  /** The hash tag with its braces. */
  readonly tag: string;
}

const QUEUE = 'queue:';

/**
 * Finds the kind of a key by its name.
 * @param clusterId Default: any cluster counts as this gateway's.
 */
export function kindOf(key: string, keyPrefix: string, clusterId?: string): KeyKind {
  const parts = partsOf(key, keyPrefix);
  if (!parts) return 'other programs';
  if (clusterId !== undefined && parts.clusterId !== clusterId) return 'other clusters';
  if (parts.owner === '') return 'gateway';
  return parts.owner.startsWith(QUEUE) ? queueKind(key, keyPrefix, parts) : viewKind(key, parts);
}

/** `{PREFIX:v1:CLUSTER}:…`, `{PREFIX:v1:CLUSTER:queue:NAME}:…`, `{PREFIX:v1:CLUSTER:KIND:SETTINGS}:…` */
function partsOf(key: string, keyPrefix: string): Parts | undefined {
  const end = key.indexOf('}:');
  const start = `{${keyPrefix}:v1:`;
  if (!key.startsWith(start) || end < 0) return undefined;
  const inside = key.slice(start.length, end);
  const colon = inside.indexOf(':');
  const tag = key.slice(0, end + 1);
  if (colon < 0) return { clusterId: inside, owner: '', tag };
  return { clusterId: inside.slice(0, colon), owner: inside.slice(colon + 1), tag };
}

function queueKind(key: string, keyPrefix: string, { clusterId, owner }: Parts): KeyKind {
  const keys = queueKeys({ keyPrefix, clusterId }, owner.slice(QUEUE.length));
  if (key.startsWith(keys.recordPrefix)) return 'records';
  if (key.startsWith(keys.historyPrefix)) return 'histories';
  if (new Set<string>([keys.histories, keys.recent, keys.samples]).has(key)) return 'histories';
  return key.startsWith(keys.bullmqPrefix) ? 'BullMQ' : 'queues';
}

function viewKind(key: string, { tag }: Parts): KeyKind {
  const keys = viewKeys(tag);
  switch (key) {
    case keys.objects:
      return 'objects';
    case keys.entries:
      return 'entries';
    case keys.order:
      return 'orders';
    case keys.outbox:
      return 'outboxes';
    default:
      return key.startsWith(keys.indexPrefix) ? 'indexes' : 'views';
  }
}
