import { formatKind } from '../../../../core/index.ts';
import type { WebhookDescription } from '../../../../contract/index.ts';
import type { ControllerAccess } from '../data.ts';
import { type Content, formatCount, html } from '../html.ts';
import type { PageRequest } from '../page.ts';
import { badge, panel } from './panel.ts';
import { table } from './table.ts';

/** The webhooks of a controller, and their reviews at this gateway; nothing when it has none. */
export function webhookPanel({ times }: PageRequest, controller: ControllerAccess): Content {
  const webhooks = controller.webhooks();
  if (webhooks.length === 0) return undefined;
  return panel(
    'Webhooks',
    table('Webhooks', webhooks, [
      { title: 'Name', heading: true, cell: ({ webhook }) => webhook.name },
      { title: 'Type', cell: ({ webhook }) => webhook.type },
      { title: 'Kind', cell: ({ webhook }) => formatKind(webhook) },
      { title: 'Of', look: 'text optional', cell: ({ webhook }) => scopeText(webhook) },
      { title: 'Reviews here', look: 'number', cell: ({ seen }) => formatCount(seen?.count ?? 0) },
      {
        title: 'Last answer',
        look: 'text',
        cell: ({ webhook, seen }) =>
          seen
            ? html`${seen.failure === undefined ? badge('ok', 'answered') : badge('bad', 'failed')}
                ${times.at(seen.atMs)}
                ${webhook.type !== 'conversion' && !seen.isSenderKnown && badge('warn', 'without the cache: unknown sender')}
                <span class="reason">${seen.failure}</span>`
            : 'none yet',
      },
    ]),
  );
}

function scopeText(webhook: WebhookDescription): string {
  if (webhook.type === 'conversion') return `versions ${webhook.versions.join(', ')}`;
  const { namespaces, operations, subresources } = webhook;
  const where = namespaces ? `namespaces ${namespaces.join(', ')}` : 'all namespaces';
  const what = subresources ? ` of ${subresources.join(', ')}` : '';
  return `${operations.join(', ')}${what}, ${where}`;
}
