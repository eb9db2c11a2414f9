// Keeps a page up to date: asks for it again and changes what differs in place, so that focus, scroll position and open
// parts stay. The pages work without this script.

const main = document.querySelector('main');
const everyMs = Number(main?.dataset['refresh'] ?? 0);
const control = document.querySelector('#live');
let on = true;
let timer = 0;

/** Something on the page would be lost: marked rows, a field that was changed, an open question, selected text. */
function isBusy() {
  if (document.visibilityState === 'hidden') return true;
  if (main.querySelector('input:checked, details.confirm[open]')) return true;
  if (
    [...main.querySelectorAll('input[type=text], input[type=search]')].some((each) => each.value !== each.defaultValue)
  )
    return true;
  const active = document.activeElement;
  if (active && main.contains(active) && active.matches('input, select')) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed;
}

async function refresh() {
  if (!on || isBusy()) return;
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'error' });
  // A session that has ended shows when the visitor does something.
  if (response.status === 401) return stop();
  const text = await response.text();
  const page = new DOMParser().parseFromString(text, 'text/html');
  const next = page.querySelector('main');
  if (!next || !on || isBusy()) return;
  globalThis.Idiomorph.morph(main, next, {
    callbacks: {
      // What the visitor has opened or closed stays so; the message of a change has been read by then.
      beforeAttributeUpdated: (name, element) => !(name === 'open' && element instanceof HTMLDetailsElement),
      beforeNodeRemoved: (node) => !(node instanceof HTMLElement && node.id === 'message'),
    },
  });
  const [before, after] = [document, page].map((each) => each.querySelector('footer'));
  before.replaceChildren(...after.childNodes);
  document.title = page.title;
}

async function next() {
  await refresh().catch(() => {});
  if (on) timer = setTimeout(() => void next(), everyMs);
}

function stop() {
  on = false;
  clearTimeout(timer);
  show();
}

function show() {
  control.textContent = on ? 'Pause updates' : 'Resume updates';
}

if (main && control && everyMs > 0) {
  control.hidden = false;
  control.addEventListener('click', () => {
    if (on) return stop();
    on = true;
    show();
    void next();
  });
  show();
  timer = setTimeout(() => void next(), everyMs);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') void refresh().catch(() => {});
  });
}

// A question that was opened is closed by Escape.
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const open of document.querySelectorAll('details.confirm[open]')) {
    open.open = false;
    open.querySelector('summary')?.focus();
  }
});

// Runs, as they end: the stream sends rows, which go to the top of the table.
const stream = document.querySelector('[data-stream]');
if (stream) {
  const source = new EventSource(stream.dataset['stream']);
  source.addEventListener('message', ({ data }) => {
    const rows = new DOMParser().parseFromString(data, 'text/html').querySelectorAll('tbody tr');
    const body = main.querySelector('tbody');
    // The first run of a page without a table.
    if (!body) return location.reload();
    for (const row of [...rows].toReversed()) if (!document.getElementById(row.id)) body.prepend(row);
    while (body.rows.length > 200) body.lastElementChild.remove();
  });
  if (control) {
    control.hidden = false;
    // Refused, as a fifth stream of a session is: the browser does not ask again.
    source.addEventListener('error', () => {
      if (source.readyState === EventSource.CLOSED) stop();
    });
    control.addEventListener('click', () => {
      // What has ended meanwhile is on the page when it is loaded again.
      if (!on) return location.reload();
      source.close();
      stop();
    });
    show();
  }
}
