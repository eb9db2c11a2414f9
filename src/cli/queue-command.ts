import { formatObjectKey, isNamespace, messageOf, parseObjectKey, shown, UserError } from '../core/index.ts';
import type { ServedKey } from '../gateway/server/queue-api.ts';
import type { Pause, KeyPage } from '../gateway/workqueue/work-queue.ts';
import { explainKey } from './explain-text.ts';
import { describeKey, describePage, describeQueues, type QueueSummary } from './queue-text.ts';

export interface GatewayAddress {
  /** URL of the gateway's own server. */
  readonly gateway: string;
  readonly json?: boolean;
}

export interface DeadLetterFlags extends GatewayAddress {
  readonly namespace?: string;
  readonly all?: boolean;
}

/** `levelhook queue list`: every queue, or one list of one controller's keys. */
export async function listCommand(
  controller: string | undefined,
  options: GatewayAddress & { list: string; offset: number; limit: number },
): Promise<void> {
  if (controller === undefined) {
    const answer = await ask<{ queues: QueueSummary[] }>(options, '/queues');
    return print(options, answer, describeQueues(answer.queues));
  }
  const query = new URLSearchParams({ list: options.list, offset: `${options.offset}`, limit: `${options.limit}` });
  const answer = await ask<KeyPage>(options, `${pathOf(controller)}/keys?${query.toString()}`);
  print(options, answer, describePage(answer, options.offset));
}

/** `levelhook queue get`: everything about one key. */
export async function getCommand(controller: string, key: string, options: GatewayAddress): Promise<void> {
  const answer = await ask<ServedKey>(options, pathOfKey(controller, key));
  print(options, answer, describeKey(answer, Date.now()));
}

/** `levelhook explain`: why a key ran, what happened, what it waits for, when it runs next. */
export async function explainCommand(
  controller: string,
  key: string,
  { gateway, output }: { readonly gateway: string; readonly output: 'text' | 'json' },
): Promise<void> {
  const options = { gateway, json: output === 'json' };
  const answer = await ask<ServedKey>(options, pathOfKey(controller, key));
  print(options, answer, explainKey(controller, answer, Date.now()));
}

/** `levelhook queue replay` and `drop`: dead letters by key, of a namespace, or all. */
export async function deadLettersCommand(
  verb: 'replay' | 'drop',
  controller: string,
  keys: readonly string[],
  options: DeadLetterFlags,
): Promise<void> {
  const answer = await ask<Record<string, number>>(
    options,
    `${pathOf(controller)}/${verb}`,
    selectionOf(keys, options),
  );
  const [[done, count] = ['', 0]] = Object.entries(answer);
  print(options, answer, `${done} ${count} dead ${count === 1 ? 'letter' : 'letters'} of ${controller}\n`);
}

/** `levelhook queue pause` and `resume`: a controller, or its keys of one namespace. */
export async function pauseCommand(
  verb: 'pause' | 'resume',
  controller: string,
  options: GatewayAddress & { namespace?: string },
): Promise<void> {
  checkNamespace(options.namespace);
  const scope = options.namespace === undefined ? 'controller' : `namespace/${options.namespace}`;
  const answer = await ask<{ pauses: Pause[] }>(options, `${pathOf(controller)}/${verb}`, { scope });
  const paused = answer.pauses.map(({ scope: each }) => each).join(', ') || 'nothing';
  print(options, answer, `paused of ${controller}: ${paused}\n`);
}

function selectionOf(keys: readonly string[], { namespace, all }: DeadLetterFlags): object {
  const given = [keys.length > 0, namespace !== undefined, all === true].filter(Boolean).length;
  if (given !== 1) throw new UserError('Say which dead letters: some keys, --namespace <name>, or --all.');
  checkNamespace(namespace);
  if (namespace !== undefined) return { namespace };
  return all ? { all } : { keys: keys.map(keyOf) };
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

async function ask<T>({ gateway }: GatewayAddress, path: string, body?: object): Promise<T> {
  let answer: Response;
  let value: unknown;
  try {
    const sent = body && {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    };
    answer = await fetch(new URL(path, gateway), { ...sent, redirect: 'error' });
    const json = answer.headers.get('content-type')?.startsWith('application/json');
    value = json ? await answer.json() : { error: (await answer.text()).trim() };
  } catch (error) {
    throw new UserError(`No gateway answers at ${gateway} (${messageOf(error)}): start it, or set --gateway.`);
  }
  if (answer.ok) return value as T;
  const { error } = value as { error?: string };
  throw new UserError(`The gateway at ${gateway} answered ${answer.status}: ${error || 'it has no queues'}.`);
}

function print(options: GatewayAddress, answer: unknown, text: string): void {
  process.stdout.write(options.json ? `${JSON.stringify(answer, undefined, 2)}\n` : text);
}
