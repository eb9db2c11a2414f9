import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { formatJson, type KubernetesObject } from '../../../../core/index.ts';
import { isDeeper } from '../../../informer/cache/kept-out.ts';
import type { ReadingTime } from '../../cache-api/reading-time.ts';
import type { ObjectChange, ObjectStates, Shown } from '../data.ts';
import { type Content, formatCount, html, type Html } from '../html.ts';
import { diffLines } from '../line-diff.ts';
import { badge, empty, panel } from './panel.ts';

/** More text than this is cut: a page is for people. */
const MAX_CHARACTERS = 200_000;
/** YAML of more JSON or values, or of deeper objects, would keep the thread from the work of all controllers. */
const MAX_YAML = { characters: 32_768, depth: 50, values: 1500 };
/** Rows of a comparison. */
const MOST_ROWS = 500;
/** Equal rows before the first difference, where not all rows are shown. */
const ROWS_BEFORE = 3;

/**
 * An object as YAML, its fields in alphabetical order. A large or deep object is shown as the beginning of its JSON,
 * which costs less, and an object too deep for JSON as a sentence. It may take tens of milliseconds: a page makes the
 * text of an object once.
 */
export function yamlOf(object: KubernetesObject): string {
  const json = jsonOf(object);
  if (json === undefined) return '# It is nested too deeply to be shown.\n';
  const isSmall = json.length <= MAX_YAML.characters && !isDeeper(object, MAX_YAML.depth);
  if (isSmall && valuesWithin(object, MAX_YAML.values) >= 0) {
    // A person may copy the text for kubectl, which reads YAML 1.1: without quotes off is false there, and 0644 a
    // number.
    const options = { compat: 'yaml-1.1', lineWidth: 0, aliasDuplicateObjects: false, sortMapEntries: true } as const;
    return stringify(object, options);
  }
  const what = json.length <= MAX_CHARACTERS ? 'All' : 'The first 200,000';
  return `# ${what} of ${json.length} characters, as JSON:\n${json.slice(0, MAX_CHARACTERS)}\n`;
}

/** Undefined when the stack has no room for it: an apiserver takes 10,000 levels. */
function jsonOf(object: KubernetesObject): string | undefined {
  try {
    return formatJson(object);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** How many of these values are left without those of an object that is not deep; negative: it has more. */
function valuesWithin(value: unknown, most: number): number {
  let left = most - 1;
  if (typeof value !== 'object' || value === null) return left;
  for (const each of Object.values(value)) {
    if (left < 0) break;
    left = valuesWithin(each, left);
  }
  return left;
}

/** An object as YAML. Kubectl's copy of an earlier state, which says everything a second time, is folded. */
export function yamlBlock(object: KubernetesObject, label: string): Html {
  const { [LAST_APPLIED]: lastApplied, ...annotations } = object.metadata.annotations ?? {};
  const shown = lastApplied === undefined ? object : { ...object, metadata: { ...object.metadata, annotations } };
  return html`<pre tabindex="0" role="region" aria-label="${label}"><code>${yamlOf(shown)}</code></pre>
    ${
      lastApplied !== undefined &&
      html`<details class="body">
        <summary>The annotation ${LAST_APPLIED}</summary>
        <pre tabindex="0" role="region" aria-label="${LAST_APPLIED}"><code>${lastApplied}</code></pre>
      </details>`
    }`;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface ObjectPanel {
  readonly panel: Html;
  /** Whether cache and server have something else, so that the panel has two columns of its own. */
  readonly isCompared: boolean;
}

export interface ObjectPanelOptions {
  /** The cache has its metadata alone, on purpose. Default false. */
  readonly isKeptOut?: boolean;
  /** The visitor's time of the thread. */
  readonly pace: ReadingTime['pace'];
}

/** The object in the cache next to the object on the server; one text where both are the same. */
export async function objectPanel(
  states: ObjectStates,
  { isKeptOut = false, pace }: ObjectPanelOptions,
): Promise<ObjectPanel> {
  if (states.kind === 'hidden') return { panel: panel('Object', empty(states.reason)), isCompared: false };
  const { cached, server, serverError } = states;
  const block = (object: KubernetesObject, label: string): Promise<Html> => pace(() => yamlBlock(object, label));
  if (serverError !== undefined) {
    const notice = html`<p class="empty">The server was not asked successfully: ${serverError}</p>`;
    const shown = cached ? await block(cached, 'Object in the cache') : empty('The cache does not have it.');
    return { panel: panel('Object in the cache', html`${notice}${shown}`), isCompared: false };
  }
  if (!cached && !server) {
    const none = empty('There is no such object, neither in the cache nor on the server.');
    return { panel: panel('Object', none), isCompared: false };
  }
  const areSame = cached && server && (await pace(() => isSame(cached, server)));
  if (isKeptOut && server) {
    const end = badge('warn', 'kept out of the cache');
    return { panel: panel('Object', await block(server, 'Object'), end), isCompared: areSame === false };
  }
  // Texts are cut, so those of different objects may be the same.
  const left = areSame || !cached ? '' : await pace(() => yamlOf(cached));
  const right = areSame || !server ? '' : await pace(() => yamlOf(server));
  if (cached && areSame) {
    const end = badge('ok', 'the cache has what the server has');
    return { panel: panel('Object', await block(cached, 'Object'), end), isCompared: false };
  }
  const word = !cached ? 'only on the server' : !server ? 'only in the cache' : 'the cache is behind the server';
  const compared = await pace(() => panel('Object', sideBySide(left, right), badge('warn', word)));
  return { panel: compared, isCompared: areSame === false };
}

/** What one change has made of an object, and who has made it. @param what the object, at its version. */
export async function changePanel(
  what: Content,
  change: Shown<ObjectChange>,
  pace: ReadingTime['pace'],
): Promise<Html> {
  const title = html`The change of ${what}`;
  if (change.kind === 'hidden') return panel(title, empty(change.reason));
  const { managers } = change;
  const [before, after] = [change.before, change.after].map((each) => each && unversioned(each));
  const left = await pace(() => (before ? yamlOf(before) : ''));
  const right = await pace(() => (after ? yamlOf(after) : ''));
  const end = managers.length > 0 && html`<span class="muted">by ${managers.join(' or ')}</span>`;
  if (left === right) {
    // Texts are cut, so those of different objects may be the same.
    const areSame = before && after && (await pace(() => isSame(before, after)));
    const words = areSame
      ? 'It has changed fields that the cache leaves out, such as metadata.managedFields, and no other.'
      : 'The object is too large or too deep to show what has changed.';
    return panel(title, empty(words), end);
  }
  const heads = ['Before', 'After'] as const;
  return pace(() => panel(title, sideBySide(left, right, heads, true), end));
}

/** Without the version, which each change changes. */
function unversioned(object: KubernetesObject): KubernetesObject {
  const { resourceVersion: _, ...metadata } = object.metadata;
  return { ...object, metadata: metadata as KubernetesObject['metadata'] };
}

/** Whatever the order of their fields. Costs little of what their texts cost. */
function isSame(one: KubernetesObject, other: KubernetesObject): boolean {
  try {
    return isDeepStrictEqual(one, other);
  } catch (error) {
    // The stack has no room for it.
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** The lines of a row: undefined where a side has none. */
interface DiffRow {
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly isChanged: boolean;
}

function rowsOf(left: string, right: string): readonly DiffRow[] {
  const rows: DiffRow[] = [];
  // Lines that follow each other on one side share a row with those on the other.
  let [removed, added]: [string[], string[]] = [[], []];
  const flush = (): void => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
      rows.push({ before: removed[at], after: added[at], isChanged: true });
    }
    [removed, added] = [[], []];
  };
  for (const { side, text } of diffLines(left, right)) {
    if (side === 'left') removed.push(text);
    else if (side === 'right') added.push(text);
    else {
      flush();
      rows.push({ before: text, after: text, isChanged: false });
    }
  }
  flush();
  return rows;
}

function diffRow({ before, after, isChanged }: DiffRow): Html {
  const cells = isChanged
    ? [before !== undefined && html`<del>${before}</del>`, after !== undefined && html`<ins>${after}</ins>`]
    : [before, after];
  return html`<tr>
    ${cells.map((cell) => html`<td>${cell}</td>`)}
  </tr>`;
}

/** Changed rows with the rows around them; a row of dots stands for the others. */
function changedRows(rows: readonly DiffRow[]): readonly DiffRow[] {
  const near = new Set(
    rows.flatMap(({ isChanged }, at) =>
      isChanged ? Array.from({ length: 2 * ROWS_BEFORE + 1 }, (_, from) => at - ROWS_BEFORE + from) : [],
    ),
  );
  return rows.flatMap((row, at) => {
    if (near.has(at)) return [row];
    return at === 0 || near.has(at - 1) ? [{ before: '…', after: '…', isChanged: false }] : [];
  });
}

/** @param isShort whether only changed rows and those around them are shown. */
function sideBySide(
  left: string,
  right: string,
  heads: readonly [string, string] = ['In the cache', 'On the server'],
  isShort = false,
): Content {
  const all = rowsOf(left, right);
  const rows = isShort ? changedRows(all) : all;
  const isCut = rows.length > MOST_ROWS;
  const from = isCut ? Math.max(0, rows.findIndex(({ isChanged }) => isChanged) - ROWS_BEFORE) : 0;
  const shown = rows.slice(from, from + MOST_ROWS);
  const table = html`<div class="scroll" role="region" aria-label="Difference" tabindex="0">
    <table class="diff">
      <thead>
        <tr>
          ${heads.map((head) => html`<th scope="col">${head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${shown.map(diffRow)}
      </tbody>
    </table>
  </div>`;
  const count = formatCount(rows.length);
  return [table, isCut && empty(`Only ${shown.length} of ${count} rows are shown, from the first difference on.`)];
}
