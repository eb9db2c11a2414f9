import { stringify } from 'yaml';
import { formatJson, type KubernetesObject } from '../../../../core/index.ts';
import { isDeeper } from '../../../informer/cache/kept-out.ts';
import type { ObjectStates } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import { diffLines } from '../line-diff.ts';
import { badge, empty, panel } from './panel.ts';

/** More text than this is cut: a page is for people. */
const MAX_CHARACTERS = 200_000;
/** YAML of more JSON than this, or of deeper objects, would keep the thread from the work of all controllers. */
const MAX_YAML = { characters: 32_768, depth: 50 };

/**
 * An object as YAML, its fields in alphabetical order. A large or deep object is shown as the beginning of its JSON,
 * which costs less, and an object too deep for JSON as a sentence.
 */
export function yamlOf(object: KubernetesObject): string {
  const json = jsonOf(object);
  if (json === undefined) return '# It is nested too deeply to be shown.\n';
  if (json.length <= MAX_YAML.characters && !isDeeper(object, MAX_YAML.depth)) {
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

/** Whether the object needs no comparison: cache and server have the same, or it is not shown. */
export function isUnchanged(states: ObjectStates): boolean {
  if (states.kind === 'hidden' || !states.cached || !states.server) return true;
  return yamlOf(states.cached) === yamlOf(states.server);
}

/**
 * The object in the cache next to the object on the server; one text where both are the same.
 * @param isKeptOut the cache has its metadata alone, on purpose. Default false.
 */
export function objectPanel(states: ObjectStates, isKeptOut = false): Html {
  if (states.kind === 'hidden') return panel('Object', empty(states.reason));
  const { cached, server, serverError } = states;
  if (serverError !== undefined) {
    const notice = html`<p class="empty">The server was not asked successfully: ${serverError}</p>`;
    return panel(
      'Object in the cache',
      html`${notice}${cached ? yamlBlock(cached, 'Object in the cache') : nothing()}`,
    );
  }
  if (!cached && !server) {
    return panel('Object', empty('There is no such object, neither in the cache nor on the server.'));
  }
  if (isKeptOut && server) {
    return panel('Object', yamlBlock(server, 'Object'), badge('warn', 'kept out of the cache'));
  }
  const [left, right] = [cached ? yamlOf(cached) : '', server ? yamlOf(server) : ''];
  if (cached && left === right) {
    return panel('Object', yamlBlock(cached, 'Object'), badge('ok', 'the cache has what the server has'));
  }
  const word = !cached ? 'only on the server' : !server ? 'only in the cache' : 'the cache is behind the server';
  return panel('Object', sideBySide(left, right), badge('warn', word));
}

function nothing(): Html {
  return empty('The cache does not have it.');
}

function sideBySide(left: string, right: string): Content {
  const rows: Html[] = [];
  // Lines that follow each other on one side share a row with those on the other.
  let [removed, added]: [string[], string[]] = [[], []];
  const flush = (): void => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
      const [before, after] = [removed[at], added[at]];
      rows.push(
        html`<tr>
          <td>${before !== undefined && html`<del>${before}</del>`}</td>
          <td>${after !== undefined && html`<ins>${after}</ins>`}</td>
        </tr>`,
      );
    }
    [removed, added] = [[], []];
  };
  for (const { side, text } of diffLines(left, right)) {
    if (side === 'left') removed.push(text);
    else if (side === 'right') added.push(text);
    else {
      flush();
      rows.push(
        html`<tr>
          <td>${text}</td>
          <td>${text}</td>
        </tr>`,
      );
    }
  }
  flush();
  return html`<div class="scroll" role="region" aria-label="Difference" tabindex="0">
    <table class="diff">
      <thead>
        <tr>
          <th scope="col">In the cache</th>
          <th scope="col">On the server</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;
}
