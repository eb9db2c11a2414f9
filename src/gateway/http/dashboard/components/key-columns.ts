import type { KeyStatus } from '../../../controller/workqueue/work-queue.ts';
import { html } from '../html.ts';
import type { Times } from '../times.ts';
import { keyUrl } from '../urls.ts';
import { shownState } from '../waits.ts';
import { badge } from './panel.ts';
import type { TableColumn } from './table.ts';

interface KeyRow {
  readonly key: string;
  readonly status: KeyStatus;
}

/** The first columns of a table of keys of one controller: the key, and its state. */
export function keyColumns(controller: string, times: Times): TableColumn<KeyRow>[] {
  return [
    { title: 'Key', heading: true, cell: ({ key }) => html`<a href="${keyUrl(controller, key)}">${key}</a>` },
    {
      title: 'State',
      look: 'text',
      cell: ({ status }) => {
        const { tone, word, why } = shownState(status, times);
        return html`${badge(tone, word)} <span class="reason">${why}</span>`;
      },
    },
  ];
}
