import type { ControllerAccess, ControllerSummary } from '../data.ts';
import { type Content, html, type Html, plural } from '../html.ts';
import type { PageRequest } from '../page.ts';
import { controllerActionUrl, keyUrl } from '../urls.ts';
import { pauseName } from '../waits.ts';
import { actionForm, hiddenFields } from './form.ts';
import { panel } from './panel.ts';
import { table } from './table.ts';

/** The actions on a controller as a whole. */
export function controllerButtons(page: PageRequest, { id, pauses, sizes }: ControllerSummary): Content {
  const action = (name: string): string => controllerActionUrl(id, name);
  const fields = { scope: 'controller' };
  const pause = pauses.some(({ scope }) => scope === 'controller')
    ? actionForm(page, { action: action('resume'), label: 'Resume', fields, tone: 'main' })
    : actionForm(page, {
        action: action('pause'),
        label: 'Pause',
        fields,
        question: 'No key of this controller starts on any gateway until you resume it. Runs in flight end.',
      });
  const all = actionForm(page, {
    action: action('reconcile-all'),
    label: 'Reconcile all',
    tone: 'main',
    question: 'All keys run once at low priority: keys of changes go before them.',
  });
  const replay =
    sizes.dead > 0 &&
    actionForm(page, {
      action: action('replay-all'),
      label: 'Replay dead letters',
      tone: 'main',
      question: 'All dead letters of this controller run again, with their failures forgotten.',
    });
  return html`${replay} ${all} ${pause}`;
}

/** The actions on a part of the keys of a controller. */
export function selectionPanel(page: PageRequest, controller: ControllerAccess, id: string): Content {
  if (!page.mayChange) return undefined;
  return panel(
    'Some keys',
    html`<div class="body row">
      ${selectorForm(page, controller, id)} ${controller.namespaced && namespaceForm(page, id)}
    </div>`,
  );
}

function namespaceForm(page: PageRequest, id: string): Html {
  return html`<form class="row" method="post" action="${controllerActionUrl(id, 'pause')}">
    ${hiddenFields(page)}
    <label>Namespace <input type="text" name="namespace" required spellcheck="false" /></label>
    <button>Pause namespace</button>
  </form>`;
}

function selectorForm(page: PageRequest, { namespaced }: ControllerAccess, id: string): Html {
  const field = namespaced
    ? html`<label>In namespace <input type="text" name="namespace" spellcheck="false" /></label>`
    : '';
  return html`<form class="row" method="post" action="${controllerActionUrl(id, 'reconcile')}">
    ${hiddenFields(page)} ${field}
    <label>With labels <input type="text" name="labels" placeholder="app=web,tier!=test" spellcheck="false" /></label>
    <button>Reconcile these</button>
  </form>`;
}

/** The pauses of a controller, each with its end. Pauses by annotation are on the pages of their keys. */
export function pauseList(page: PageRequest, summary: ControllerSummary): Content {
  const { id, pauses, morePauses, pausedObjects: objects } = summary;
  if (pauses.length + objects === 0) return undefined;
  const shown = pauses.toSorted((a, b) => a.sinceMs - b.sinceMs);
  const rows = table('Pauses', shown, [
    {
      title: 'Paused',
      heading: true,
      cell: ({ scope }) => {
        const name = pauseName(scope);
        return scope.startsWith('key/') ? html`<a href="${keyUrl(id, scope.slice('key/'.length))}">${name}</a>` : name;
      },
    },
    { title: 'Since', cell: ({ sinceMs }) => page.times.at(sinceMs) },
    {
      title: 'Until',
      look: 'optional',
      cell: ({ untilMs }) => (untilMs === undefined ? 'someone resumes it' : page.times.at(untilMs)),
    },
    {
      title: html`<span class="hidden">Action</span>`,
      look: 'number',
      cell: ({ scope }) =>
        scope !== 'recovery' &&
        actionForm(page, { action: controllerActionUrl(id, 'resume'), label: 'Resume', fields: { scope } }),
    },
  ]);
  const annotated =
    objects > 0 &&
    html`<p class="empty">
      ${objects} ${objects === 1 ? 'object is' : 'objects are'} paused by the annotation
      <code>levelhook.dev/paused</code>.
    </p>`;
  const more = morePauses > 0 && html`<p class="empty">${plural(morePauses, 'further pause')}.</p>`;
  return panel('Pauses', html`${shown.length > 0 && rows}${more}${annotated}`);
}
