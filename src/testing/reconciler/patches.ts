import { ownValue } from '../../core/index.ts';
import { isJson, isSame, type Json, setOwn } from './json.ts';
import { listForm } from './list-keys.ts';
import { FakeApiError } from './fake-api-error.ts';

/** RFC 7386. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJson(patch)) return patch;
  const merged: Json = isJson(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else setOwn(merged, name, mergePatch(ownValue(merged, name), value));
  }
  return merged;
}

/** RFC 6902, with the apiserver's exceptions. */
export function jsonPatch(target: unknown, operations: unknown): unknown {
  if (!Array.isArray(operations)) throw new FakeApiError(400, 'a JSON patch is a list of operations');
  const root: Json = { '': structuredClone(target) };
  for (const operation of operations as { op: string; path: string; from?: string; value?: unknown }[]) {
    const { op, path, from = '', value } = operation;
    if (op === 'test') {
      if (!isSame(place(root, path).get(), value)) throw unprocessable(`testing value ${path} failed`);
    } else if (op === 'remove') place(root, path).remove();
    // A missing field is replaced too, because the apiserver's library is not strict.
    else if (op === 'replace') place(root, path).set(structuredClone(value));
    else if (op === 'add') place(root, path).add(structuredClone(value));
    else if (op === 'copy') place(root, path).add(structuredClone(place(root, from).get()));
    else if (op === 'move') {
      const moved = place(root, from).get();
      place(root, from).remove();
      place(root, path).add(moved);
    } else throw unprocessable(`unknown operation "${op}"`);
  }
  return root[''];
}

function place(root: Json, path: string) {
  const segments = path.split('/').map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = segments.at(-1) ?? '';
  const missing = (): FakeApiError => unprocessable(`the path ${path} does not exist`);
  let parent: unknown = root;
  for (const segment of segments.slice(0, -1)) {
    parent = Array.isArray(parent) ? parent[Number(segment)] : isJson(parent) ? ownValue(parent, segment) : undefined;
    if (parent === undefined) throw missing();
  }
  const at = Array.isArray(parent) ? (last === '-' ? parent.length : Number(last)) : 0;
  const get = (): unknown => {
    const value = Array.isArray(parent) ? (parent[at] as unknown) : isJson(parent) ? ownValue(parent, last) : undefined;
    if (value === undefined) throw missing();
    return value;
  };
  const set = (value: unknown): void => {
    if (Array.isArray(parent)) parent[at] = value;
    else if (isJson(parent)) setOwn(parent, last, value);
    else throw missing();
  };
  return {
    get,
    set,
    add(value: unknown): void {
      if (!Array.isArray(parent)) set(value);
      else if (!(at >= 0 && at <= parent.length)) throw missing();
      else parent.splice(at, 0, value);
    },
    remove(): void {
      get();
      if (Array.isArray(parent)) parent.splice(at, 1);
      else if (isJson(parent)) delete parent[last];
    },
  };
}

function unprocessable(why: string): FakeApiError {
  return new FakeApiError(422, `the server rejected our request due to an error in our request: ${why}`);
}

const DELETE_FROM = '$deleteFromPrimitiveList/';

/**
 * Kubernetes' strategic merge patch (apimachinery, pkg/util/strategicpatch) of a built-in kind, with the directives
 * `$patch`, `$retainKeys` and `$deleteFromPrimitiveList`. `$setElementOrder` is ignored: remaining items keep their
 * order, and new ones follow.
 */
export function strategicMergePatch(target: unknown, patch: Json): Json {
  const { $patch, $retainKeys, ...fields } = patch;
  const old = isJson(target) ? target : {};
  if ($patch === 'replace') return fields;
  if ($patch === 'delete') return {};
  const retained = Array.isArray($retainKeys) ? new Set<unknown>($retainKeys) : undefined;
  const merged: Json = Object.fromEntries(Object.entries(old).filter(([name]) => retained?.has(name) ?? true));
  for (const [name, value] of Object.entries(fields)) {
    if (name.startsWith('$setElementOrder/')) continue;
    if (name.startsWith(DELETE_FROM)) {
      const field = name.slice(DELETE_FROM.length);
      const gone = value as unknown[];
      setOwn(
        merged,
        field,
        ((ownValue(merged, field) ?? []) as unknown[]).filter((item) => !gone.includes(item)),
      );
    } else if (value === null || (isJson(value) && value['$patch'] === 'delete')) delete merged[name];
    else if (isJson(value)) setOwn(merged, name, strategicMergePatch(ownValue(merged, name), value));
    else if (Array.isArray(value))
      setOwn(merged, name, mergeList(name, ownValue(merged, name) as unknown[] | undefined, value));
    else setOwn(merged, name, value);
  }
  return merged;
}

function mergeList(field: string, old: readonly unknown[] | undefined, patch: readonly unknown[]): unknown[] {
  const directive = (item: unknown): unknown => (isJson(item) ? item['$patch'] : undefined);
  const rest = patch.filter((item) => directive(item) !== 'replace');
  if (rest.length < patch.length) return rest;
  const form = listForm(field, [...(old ?? []), ...patch], true);
  if (form === 'atomic') return [...patch];
  if (form === 'set') return [...new Set([...(old ?? []), ...patch])];
  const merged = (old ?? []).map((item) => item as Json);
  for (const item of patch as Json[]) {
    const at = merged.findIndex((each) => each[form.key] === item[form.key]);
    if (directive(item) === 'delete') {
      if (at >= 0) merged.splice(at, 1);
    } else if (at < 0) merged.push(strategicMergePatch({}, item));
    else merged[at] = strategicMergePatch(merged[at], item);
  }
  return merged;
}
