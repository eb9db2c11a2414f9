import type { ListedReplica, ReplicaRole } from '../../../election/replica-record.ts';
import type { GatewaySummary } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import type { PageRequest } from '../page.ts';
import { badge, type Tone } from './panel.ts';
import { table } from './table.ts';

const TONES: Readonly<Record<ReplicaRole, Tone>> = {
  leader: 'ok',
  follower: 'neutral',
  alone: 'ok',
  starting: 'warn',
};

/** A running gateway has reported itself within the last ten seconds. */
const SILENT_MS = 20_000;

/** The gateways of the deployment with their roles: the same on the page of each of them. */
export function gatewayTable({ times }: PageRequest, replicas: readonly ListedReplica[], own: GatewaySummary): Content {
  const rows = table(
    'Gateways',
    replicas,
    [
      {
        title: 'Gateway',
        heading: true,
        cell: ({ id, name, isThis }) =>
          html`<span title="${id}">${name}</span>${isThis && html` <span class="muted">(this one)</span>`}`,
      },
      {
        title: 'Role',
        cell: (each) =>
          isFormer(each, own)
            ? badge('warn', 'has led')
            : html`${badge(TONES[each.role], each.role)}
                <span class="muted">for ${times.since(each.roleSinceMs)}</span>`,
      },
      { title: 'Version', look: 'optional', cell: ({ version }) => version },
      { title: 'Started', look: 'optional', cell: ({ startedMs }) => times.at(startedMs) },
      { title: 'Heard of', cell: ({ seenMs }) => heardOf(times, seenMs) },
    ],
    ({ id }) => `gateway-${id}`,
  );
  return html`${rows}${otherLeader(replicas, own)}`;
}

/** A leader that was killed is listed until it counts as gone, and another gateway holds its Lease by then. */
function isFormer({ id, role }: ListedReplica, own: GatewaySummary): boolean {
  const holder = own.role === 'leader' ? (own.identity ?? '') : own.leader;
  return role === 'leader' && holder !== '' && id !== holder;
}

function heardOf(times: PageRequest['times'], seenMs: number): Html {
  const isSilent = times.nowMs - seenMs > SILENT_MS;
  return html`${isSilent && badge('warn', 'silent')} ${times.at(Math.min(seenMs, times.nowMs))}`;
}

/** The Lease is held by a gateway that is not in the list: one of another deployment. */
function otherLeader(replicas: readonly ListedReplica[], { role, leader }: GatewaySummary): Content {
  if (role !== 'follower' || replicas.some(({ id }) => id === leader)) return undefined;
  const text = leader === '' ? 'No gateway is known to lead.' : `The Lease is held by ${leader}, which is not listed.`;
  return html`<p class="empty">${text}</p>`;
}
