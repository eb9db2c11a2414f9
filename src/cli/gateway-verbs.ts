import { setTimeout as sleep } from 'node:timers/promises';
import { formatObjectKey, isNamespace, messageOf, parseObjectKey, shown, UserError } from '../core/index.ts';
import type { FunctionSummary, ViewSummary } from '../gateway/http/dashboard/data.ts';
import type { ServedRights } from '../gateway/http/server/function-rights.ts';
import type { PauseChange, ServedKey, ServedQueue } from '../gateway/http/server/queue-api.ts';
import type { KeyObject, KeyPage, PersonScope } from '../gateway/controller/workqueue/work-queue.ts';
import { explainKey } from './explain-text.ts';
import { askGateway, type GatewayAddress } from './gateway-client.ts';
import {
  describeControllers,
  describeDeadLetters,
  describeFunctions,
  describeLists,
  describePage,
  describeViews,
  pausedIn,
} from './gateway-tables.ts';
import { type Output, outputText } from './output.ts';
import { describeRights } from './rights-table.ts';

/** Of one request, as `queue-api.ts` bounds them, whose module would make each command slower. */
const MOST_KEYS = 1000;
const MOST_KEY_BYTES = 64 * 1024 - '{"keys":[]}'.length;
/** Between two looks of `--watch`. */
const WATCH_MS = 2000;

export interface OutputFlags extends GatewayAddress {
  readonly output: Output;
}

export interface GetFlags extends OutputFlags {
  readonly watch: boolean;
}

/** Keys that are not named one by one. */
export interface ChosenKeys {
  readonly namespace?: string;
  readonly all?: boolean;
}

/** The commands that change keys. */
export type KeyVerb = 'trigger' | 'replay' | 'drop';

/** `levelhook get controllers`. */
export async function getControllers(options: GetFlags): Promise<void> {
  await show(
    options,
    () => controllersOf(options),
    ({ queues }) => describeControllers(queues),
  );
}

/** `levelhook get keys`: the lists of one controller's keys, or one of them. */
export async function getKeys(
  controller: string,
  options: GetFlags & { list?: string; lists: readonly string[]; offset: number; limit: number },
): Promise<void> {
  const { list, lists, offset } = options;
  const read = (each: string): Promise<KeyPage> => pageOf(controller, { ...options, list: each });
  if (list !== undefined)
    return show(
      options,
      () => read(list),
      (page) => describePage(page, list, offset),
    );
  const readAll = async (): Promise<Record<string, KeyPage>> =>
    Object.fromEntries(await Promise.all(lists.map(async (each) => [each, await read(each)] as const)));
  await show(options, readAll, (pages) => describeLists(pages, offset));
}

/** `levelhook get dead-letters`: of one controller, or of all that have any. */
export async function getDeadLetters(
  controller: string | undefined,
  options: GetFlags & { limit: number },
): Promise<void> {
  const read = async (): Promise<Record<string, KeyPage>> => {
    const names =
      controller === undefined
        ? (await controllersOf(options)).queues.filter(({ keys }) => keys.dead > 0).map((each) => each.controller)
        : [controller];
    const pages = names.map(
      async (name) => [name, await pageOf(name, { ...options, list: 'dead', offset: 0 })] as const,
    );
    return Object.fromEntries(await Promise.all(pages));
  };
  await show(options, read, describeDeadLetters);
}

/** `levelhook get views`. */
export async function getViews(options: GetFlags): Promise<void> {
  const read = () => askGateway<{ views: ViewSummary[] }>(options, { path: '/views', field: 'views' });
  await show(options, read, ({ views }) => describeViews(views));
}

/** `levelhook get functions`. */
export async function getFunctions(options: GetFlags): Promise<void> {
  const read = () => askGateway<{ functions: FunctionSummary[] }>(options, { path: '/functions', field: 'functions' });
  await show(options, read, ({ functions }) => describeFunctions(functions));
}

/** The exit code of `levelhook explain` by the state of the key's object, for scripts. */
const OBJECT_CODES: Readonly<Record<KeyObject['state'], number>> = {
  cached: 0,
  unknown: 0,
  absent: 3,
  'kept out': 4,
  'not selected': 5,
};

/** `levelhook explain`: why a key ran, the results, its current waits, and its next run. */
export async function explain(controller: string, key: string, options: OutputFlags): Promise<void> {
  const answer = await askGateway<ServedKey>(options, { path: pathOfKey(controller, key), field: 'history' });
  print(options, answer, explainKey(controller, answer, Date.now()));
  if (answer.object) process.exitCode = OBJECT_CODES[answer.object.state];
}

/** `levelhook rights`: what the function of a controller may do, and when it did so last. */
export async function rights(controller: string, options: OutputFlags & { namespace?: string }): Promise<void> {
  const { namespace } = options;
  checkNamespace(namespace);
  const query = namespace === undefined ? '' : `?namespace=${namespace}`;
  const answer = await askGateway<ServedRights>(options, {
    path: `${pathOf(controller)}/rights${query}`,
    field: 'granted',
  });
  print(options, answer, describeRights(answer));
}

/** `levelhook trigger`, `replay` and `drop`: keys by name, in a namespace, or all. */
export async function changeKeys(
  verb: KeyVerb,
  { controller, keys }: { readonly controller: string; readonly keys: readonly string[] },
  options: OutputFlags & ChosenKeys,
): Promise<void> {
  const [path, done, what] = {
    trigger: ['reconcile', 'queued', 'key'],
    replay: ['replay', 'replayed', 'dead letter'],
    drop: ['drop', 'dropped', 'dead letter'],
  }[verb] as [string, string, string];
  let count = 0;
  for (const body of selectionsOf(keys, what, options)) {
    const question = { path: `${pathOf(controller)}/${path}`, field: done, body };
    count += (await askGateway<Record<string, number>>(options, question))[done] ?? 0;
  }
  print(options, { [done]: count }, `${done} ${count} ${count === 1 ? what : `${what}s`} of ${controller}\n`);
}

/** `levelhook pause` and `resume`: a controller, its keys of one namespace, or one key. */
export async function pauseOrResume(
  verb: 'pause' | 'resume',
  { controller, key }: { readonly controller: string; readonly key: string | undefined },
  options: OutputFlags & { namespace?: string },
): Promise<void> {
  const scope = scopeOf(key, options.namespace);
  const path = `${pathOf(controller)}/${verb}`;
  const answer = await askGateway<PauseChange>(options, { path, field: 'pauses', body: { scope } });
  const { changed } = answer;
  const paused = pausedIn(answer).join(', ') || 'nothing';
  const done = { pause: changed ? 'paused' : 'was paused already', resume: changed ? 'resumed' : 'was not paused' }[
    verb
  ];
  print(options, answer, `${nameOf(scope, controller)} ${done}; paused of ${controller} now: ${paused}\n`);
}

function controllersOf(address: GatewayAddress): Promise<{ queues: ServedQueue[] }> {
  return askGateway<{ queues: ServedQueue[] }>(address, { path: '/queues', field: 'queues' });
}

function pageOf(
  controller: string,
  { list, offset, limit, ...address }: GatewayAddress & { list: string; offset: number; limit: number },
): Promise<KeyPage> {
  const query = new URLSearchParams({ list, offset: `${offset}`, limit: `${limit}` });
  return askGateway<KeyPage>(address, { path: `${pathOf(controller)}/keys?${query.toString()}`, field: 'keys' });
}

function nameOf(scope: PersonScope, controller: string): string {
  if (scope === 'controller') return `controller ${controller}`;
  const slash = scope.indexOf('/');
  return `${scope.slice(0, slash)} ${scope.slice(slash + 1)}`;
}

function scopeOf(key: string | undefined, namespace: string | undefined): PersonScope {
  if (key !== undefined && namespace !== undefined) throw new UserError('Say a key or --namespace <name>, not both.');
  if (key !== undefined) return `key/${keyOf(key)}`;
  checkNamespace(namespace);
  return namespace === undefined ? 'controller' : `namespace/${namespace}`;
}

/** The bodies of the requests: the gateway bounds the keys and the bytes of each. */
function selectionsOf(keys: readonly string[], what: string, { namespace, all }: ChosenKeys): object[] {
  const given = [keys.length > 0, namespace !== undefined, all === true].filter(Boolean).length;
  if (given !== 1) throw new UserError(`Say which ${what}s: some keys, --namespace <name>, or --all.`);
  checkNamespace(namespace);
  if (namespace !== undefined) return [{ namespace }];
  if (all) return [{ all }];
  // All are checked before the first request.
  return batches(keys.map(keyOf)).map((batch) => ({ keys: batch }));
}

function batches(keys: readonly string[]): string[][] {
  let batch: string[] = [];
  let bytes = 0;
  const all = [batch];
  for (const key of keys) {
    const size = Buffer.byteLength(JSON.stringify(key)) + 1;
    if (batch.length === MOST_KEYS || bytes + size > MOST_KEY_BYTES) {
      all.push((batch = []));
      bytes = 0;
    }
    batch.push(key);
    bytes += size;
  }
  return all;
}

function checkNamespace(namespace: string | undefined): void {
  if (namespace === undefined || isNamespace(namespace)) return;
  throw new UserError(`--namespace: ${shown(namespace)} is not the name of a namespace`);
}

function keyOf(text: string): string {
  try {
    return formatObjectKey(parseObjectKey(text));
  } catch (error) {
    throw new UserError(messageOf(error));
  }
}

function pathOf(controller: string): string {
  return `/queues/${encodeURIComponent(controller)}`;
}

function pathOfKey(controller: string, key: string): string {
  return `${pathOf(controller)}/keys/${keyOf(key).split('/').map(encodeURIComponent).join('/')}`;
}

/** Prints what `read` gives, and with `--watch` again and again: of a table the rows that have changed. */
async function show<T>(options: GetFlags, read: () => Promise<T>, table: (answer: T) => string): Promise<void> {
  let before: ReadonlySet<string> = new Set();
  do {
    const answer = await read();
    const text = outputText(options.output, answer, table(answer));
    const parts = options.output === 'table' ? text.split(/(?<=\n)/) : [text];
    process.stdout.write(parts.filter((part) => !before.has(part)).join(''));
    before = new Set(parts);
    if (options.watch) await sleep(WATCH_MS);
  } while (options.watch);
}

function print({ output }: OutputFlags, answer: unknown, text: string): void {
  process.stdout.write(outputText(output, answer, text));
}
