import { formatObjectKey, isNamespace, messageOf, parseObjectKey, printable, shown, UserError } from '../core/index.ts';
import type { PauseChange, ServedKey, ServedQueue } from '../gateway/http/server/queue-api.ts';
import type { KeyPage, PersonScope } from '../gateway/controller/workqueue/work-queue.ts';
import { explainKey } from './explain-text.ts';
import { askGateway, type GatewayAddress } from './gateway-client.ts';
import { describeKey, describeLists, describePage, describeQueues, pausedIn } from './queue-text.ts';

/** Of one request, as `queue-api.ts` bounds them, whose module would make each command slower. */
const MOST_KEYS = 1000;
const MOST_KEY_BYTES = 64 * 1024 - '{"keys":[]}'.length;

export interface QueueFlags extends GatewayAddress {
  readonly json?: boolean;
}

export interface DeadLetterFlags extends QueueFlags {
  readonly namespace?: string;
  readonly all?: boolean;
}

/** `levelhook queue list`: every queue, the lists of one controller's keys, or one of them. */
export async function listCommand(
  controller: string | undefined,
  options: QueueFlags & { list?: string; lists: readonly string[]; offset: number; limit: number },
): Promise<void> {
  if (controller === undefined) {
    const answer = await askGateway<{ queues: ServedQueue[] }>(options, { path: '/queues', field: 'queues' });
    return print(options, answer, describeQueues(answer.queues));
  }
  const read = (list: string): Promise<KeyPage> => {
    const query = new URLSearchParams({ list, offset: `${options.offset}`, limit: `${options.limit}` });
    return askGateway<KeyPage>(options, { path: `${pathOf(controller)}/keys?${query.toString()}`, field: 'keys' });
  };
  if (options.list !== undefined) {
    const answer = await read(options.list);
    return print(options, answer, describePage(answer, options.list, options.offset));
  }
  const pages = await Promise.all(options.lists.map(async (list) => [list, await read(list)] as const));
  const answer = Object.fromEntries(pages);
  print(options, answer, describeLists(answer, options.offset));
}

/** `levelhook queue get`: everything about one key. */
export async function getCommand(controller: string, key: string, options: QueueFlags): Promise<void> {
  const answer = await askGateway<ServedKey>(options, { path: pathOfKey(controller, key), field: 'history' });
  print(options, answer, describeKey(answer, Date.now()));
}

/** `levelhook explain`: why a key ran, the results, its current waits, and its next run. */
export async function explainCommand(
  controller: string,
  key: string,
  { output, ...address }: GatewayAddress & { readonly output: 'text' | 'json' },
): Promise<void> {
  const answer = await askGateway<ServedKey>(address, { path: pathOfKey(controller, key), field: 'history' });
  print({ json: output === 'json' }, answer, explainKey(controller, answer, Date.now()));
}

/** `levelhook queue replay` and `drop`: dead letters by key, in a namespace, or all. */
export async function deadLettersCommand(
  verb: 'replay' | 'drop',
  controller: string,
  keys: readonly string[],
  options: DeadLetterFlags,
): Promise<void> {
  const path = `${pathOf(controller)}/${verb}`;
  const done = verb === 'replay' ? 'replayed' : 'dropped';
  let count = 0;
  for (const body of selectionsOf(keys, options)) {
    count += (await askGateway<Record<typeof done, number>>(options, { path, field: done, body }))[done];
  }
  print(options, { [done]: count }, `${done} ${count} dead ${count === 1 ? 'letter' : 'letters'} of ${controller}\n`);
}

/** `levelhook queue pause` and `resume`: a controller, its keys of one namespace, or one key. */
export async function pauseCommand(
  verb: 'pause' | 'resume',
  { controller, key }: { readonly controller: string; readonly key: string | undefined },
  options: QueueFlags & { namespace?: string },
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
function selectionsOf(keys: readonly string[], { namespace, all }: DeadLetterFlags): object[] {
  const given = [keys.length > 0, namespace !== undefined, all === true].filter(Boolean).length;
  if (given !== 1) throw new UserError('Say which dead letters: some keys, --namespace <name>, or --all.');
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

function print(options: Pick<QueueFlags, 'json'>, answer: unknown, text: string): void {
  process.stdout.write(printable(options.json ? `${JSON.stringify(answer, undefined, 2)}\n` : text));
}
