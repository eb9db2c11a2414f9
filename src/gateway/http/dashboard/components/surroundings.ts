import type { ControllerLook, ObjectTree, ShownEvent, Surroundings, TreeObject } from '../data.ts';
import { type Content, html, type Html, plural } from '../html.ts';
import type { PageRequest } from '../page.ts';
import type { Times } from '../times.ts';
import { controllerUrl, keyUrl, objectUrl } from '../urls.ts';
import { shownState } from '../waits.ts';
import { badge, empty, panel } from './panel.ts';
import { table } from './table.ts';

/** Characters of each text of an Event: others have chosen it. */
export const MOST_MESSAGE = 500;

/** The objects, Events and controllers around one object. @param here the object itself. */
export function surroundingsPanels({ times }: PageRequest, around: Surroundings, here: TreeObject): Html {
  const { tree, events, controllers } = around;
  return html`
    ${panel('Around it', html`<div class="body">${treeList(tree, here)}</div>`)}
    ${
      controllers.length > 0 &&
      panel('Other controllers that look at it', controllersTable(controllers, here.key, times))
    }
    ${panel('Events', events.kind === 'hidden' ? empty(events.reason) : eventsTable(events.events, times))}
  `;
}

/** The owners above the object, the object, and the objects that it controls, as lists within each other. */
function treeList({ owners, children, notShown, isCut }: ObjectTree, here: TreeObject): Html {
  const own = item(
    here,
    children.map((child) => item(child)),
    true,
  );
  const whole = owners.toReversed().reduce((below, owner) => item(owner, [below]), own);
  return html`<ul class="tree">
      ${whole}
    </ul>
    ${
      owners.length + children.length === 0 &&
      !isCut &&
      html`<p class="muted">No owner, and no object of its own, among the objects that you may read.</p>`
    }
    ${notShown > 0 && html`<p class="muted">${plural(notShown, 'more object')} below it.</p>`}
    ${isCut && html`<p class="muted">There are too many objects to look for all that it controls.</p>`}`;
}

function item(object: TreeObject, below?: readonly Html[], isHere = false): Html {
  const { kind, key, note, children, health } = object;
  const inner = below ?? children.map((child) => item(child));
  return html`<li>
    <span class="muted">${kind.slice(kind.lastIndexOf('/') + 1)}</span>
    ${isHere ? html`<span class="strong" aria-current="true">${key}</span>` : linkOf(object)}
    ${health && badge(health.tone, health.text)} ${note !== undefined && html`<span class="muted">${note}</span>`}
    ${
      inner.length > 0 &&
      html`<ul>
        ${inner}
      </ul>`
    }
  </li>`;
}

/** Leads to the key of the controller that reconciles it, else to the object in the cache. */
function linkOf({ key, view, controllers: [controller] }: TreeObject): Content {
  if (view === undefined) return key;
  return html`<a href="${controller === undefined ? objectUrl(view, key) : keyUrl(controller, key)}">${key}</a>`;
}

function controllersTable(looks: readonly ControllerLook[], key: string, times: Times): Html {
  return table('Other controllers that look at it', looks, [
    {
      title: 'Controller',
      heading: true,
      cell: ({ id, status }) => html`<a href="${status ? keyUrl(id, key) : controllerUrl(id)}">${id}</a>`,
    },
    { title: 'How', cell: ({ roles }) => roles.join(', ') },
    {
      title: 'Its key',
      cell: ({ status }) => {
        if (!status) return html`<span class="muted">no key of this object</span>`;
        const { tone, word, why } = shownState(status, times);
        return html`${badge(tone, word)} <span class="reason">${why}</span>`;
      },
    },
  ]);
}

function eventsTable(events: readonly ShownEvent[], times: Times): Html {
  if (events.length === 0) return empty('No Event is on record: the cluster keeps them for an hour by default.');
  return table('Events', events, [
    { title: 'When', look: 'nowrap', cell: ({ at }) => times.of(at) },
    {
      title: 'Event',
      heading: true,
      cell: ({ reason, isWarning, count }) =>
        html`${badge(isWarning ? 'warn' : 'neutral', reason)} ${count > 1 && html`× ${count}`}`,
    },
    {
      title: 'Message',
      cell: ({ message }) => (message.length > MOST_MESSAGE ? `${message.slice(0, MOST_MESSAGE)}…` : message),
    },
    { title: 'From', look: 'text optional', cell: ({ from }) => from },
  ]);
}
