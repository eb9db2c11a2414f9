import { type Context, Hono } from 'hono';
import { z } from 'zod';
import {
  boundedText,
  decodeObjectKey,
  type LabelSelector,
  type Logger,
  messageOf,
  parseLabelSelector,
  SelectorError,
  UserError,
} from '../../../core/index.ts';
import { namespace } from '../../../contract/name-schema.ts';
import type { KeySelection } from '../../controller/running/requeue.ts';
import { dropDeadLetters, queueAgain, replayDeadLetters } from '../../controller/workqueue/records/dead-letters.ts';
import { isPersonScope, type PersonScope } from '../../controller/workqueue/key-status.ts';
import type { ControllerAccess, DashboardData } from './data.ts';
import { type ErrorGrouping, keysOfGroup } from './error-groups.ts';
import { plural } from './html.ts';
import { leaveMessage } from './messages.ts';
import { Replays } from './replays.ts';
import { returnPath } from './urls.ts';
import { audit, type LoginEnv } from '../login/visitor.ts';
import { pauseName } from './waits.ts';

export interface ActionsOptions {
  readonly data: DashboardData;
  readonly grouping: ErrorGrouping;
  readonly logger: Logger;
}

/** A form that says something that cannot be done: its message is for the visitor. */
class FormError extends Error {
  override readonly name = 'FormError';
}

/** The fields of a form: the last value of a name, except for keys. */
interface Fields {
  readonly keys: readonly string[];
  readonly scope: string | undefined;
  readonly namespace: string;
  readonly labels: string;
  readonly group: string;
  readonly controller: string;
  readonly to: unknown;
}

type Change = (controller: ControllerAccess, fields: Fields, id: string) => Promise<string>;

/**
 * The changes behind the buttons of the pages: each answers with a redirect to the page that sent it, which shows the
 * result.
 */
export function actions({ data, grouping, logger }: ActionsOptions): Hono<LoginEnv> {
  const app = new Hono<LoginEnv>();
  const replays = (): Replays => {
    const records = data.replays();
    if (!records) throw new FormError('Nothing was changed: the gateway is starting.');
    return new Replays({ records, clock: data.clock, logger });
  };
  const forController = (name: string, change: Change): void => {
    app.post(`/controllers/:id/${name}`, (context) =>
      answer(context, async (fields) => {
        const id = context.req.param('id') ?? '';
        audit(context, { controller: id, action: name, keys: fields.keys.length || undefined, scope: fields.scope });
        return change(controllerOf(data, id), fields, id);
      }),
    );
  };

  forController('pause', async ({ queue }, { scope: given, namespace: named }) => {
    const scope = pauseScope(given ?? `namespace/${named}`);
    const done = (await queue.pause(scope)) ? 'Paused' : 'Was paused already';
    return `${done}: ${pauseName(scope)}. Runs in flight end.`;
  });
  forController('resume', async ({ queue }, { scope: given }) => {
    const scope = pauseScope(given ?? '');
    return `${(await queue.resume(scope)) ? 'Resumed' : 'Was not paused'}: ${pauseName(scope)}.`;
  });
  forController('reconcile-all', async (controller) => {
    const count = await controller.requeue({ selection: {} }, 'low');
    return `${plural(count, 'key')} queued at low priority.`;
  });
  forController('reconcile', async (controller, fields) => {
    const count = await controller.requeue(selectionOf(fields), fields.keys.length > 0 ? 'high' : 'low');
    return `${plural(count, 'key')} queued${fields.keys.length > 0 ? '' : ' at low priority'}.`;
  });
  forController('replay', async ({ queue }, { keys }) => {
    grouping.forget();
    return replayed(await replayDeadLetters(queue, { keys: someKeys(keys) }));
  });
  forController('drop', async ({ queue }, { keys }) => {
    grouping.forget();
    return `${plural(await dropDeadLetters(queue, { keys: someKeys(keys) }), 'dead letter')} dropped.`;
  });
  forController('replay-all', async ({ queue }, _, id) => {
    grouping.forget();
    const begun = await replays().start(id, 'all dead letters', (onProgress) =>
      replayDeadLetters(queue, { all: true }, onProgress),
    );
    if (!begun) throw new FormError(`A replay of ${id} is under way already.`);
    return `The replay of all dead letters of ${id} has begun: see Errors.`;
  });

  app.post('/errors/replay', (context) =>
    answer(context, async ({ controller: id, group }) => {
      audit(context, { controller: id, action: 'replay-group', group });
      const { queue } = controllerOf(data, id);
      const begun = await replays().start(id, 'the dead letters of one error', async (onProgress) => {
        const keys = await keysOfGroup('dead', { controller: id, queue }, group);
        const count = await replayDeadLetters(queue, { keys }, onProgress);
        grouping.forget();
        return count;
      });
      if (!begun) throw new FormError(`A replay of ${id} is under way already.`);
      return `The replay has begun.`;
    }),
  );
  app.post('/errors/reconcile', (context) =>
    answer(context, async ({ controller: id, group }) => {
      audit(context, { controller: id, action: 'reconcile-group', group });
      const { queue } = controllerOf(data, id);
      grouping.forget();
      const count = await queueAgain(queue, await keysOfGroup('failing', { controller: id, queue }, group));
      return count === 0 ? 'These keys do not fail any more.' : `${plural(count, 'key')} queued.`;
    }),
  );
  app.post('/errors/replay-all', (context) =>
    answer(context, async () => {
      audit(context, { action: 'replay-all' });
      let count = 0;
      for (const [id, queue] of data.queues()) {
        if ((await queue.inspector.list('dead', { offset: 0, limit: 1 })).total === 0) continue;
        const begun = await replays().start(id, 'all dead letters', async (onProgress) => {
          const replayedKeys = await replayDeadLetters(queue, { all: true }, onProgress);
          grouping.forget();
          return replayedKeys;
        });
        if (begun) count += 1;
      }
      if (count === 0) throw new FormError('There is no dead letter whose replay is not under way already.');
      return `The replays of ${plural(count, 'controller')} have begun.`;
    }),
  );

  async function answer(context: Context<LoginEnv>, change: (fields: Fields) => Promise<string>): Promise<Response> {
    const fields = fieldsOf(await context.req.parseBody({ all: true }));
    try {
      const unavailable = data.unavailable();
      if (unavailable !== undefined) throw new FormError(`Nothing was changed: ${unavailable}.`);
      leaveMessage(context, { kind: 'done', text: await change(fields) });
    } catch (error) {
      const isKnown = error instanceof FormError || error instanceof UserError || error instanceof SelectorError;
      const text = isKnown ? messageOf(error) : `It is not known whether all was done: ${messageOf(error)}`;
      leaveMessage(context, { kind: 'failed', text });
    }
    return context.redirect(returnPath(fields.to), 303);
  }
  return app;
}

function replayed(count: number): string {
  return count === 0 ? 'These keys are no dead letters any more.' : `${plural(count, 'dead letter')} replayed.`;
}

function controllerOf(data: DashboardData, id: string): ControllerAccess {
  const controller = data.controller(id);
  if (!controller) throw new FormError(boundedText(`There is no controller "${id}" in this gateway.`, 400));
  return controller;
}

function fieldsOf(body: Awaited<ReturnType<Context['req']['parseBody']>>): Fields {
  const all = (name: string): string[] => {
    const value: unknown = Object.hasOwn(body, name) ? body[name] : undefined;
    return (Array.isArray(value) ? value : [value]).filter((each) => typeof each === 'string');
  };
  const last = (name: string): string => (all(name).at(-1) ?? '').trim();
  return {
    keys: all('key'),
    scope: all('scope').at(-1),
    namespace: last('namespace'),
    labels: last('labels'),
    group: last('group'),
    controller: last('controller'),
    to: all('to').at(-1),
  };
}

function pauseScope(text: string): PersonScope {
  if (isPersonScope(text)) return text;
  if (text.startsWith('namespace/')) {
    throw new FormError(boundedText(`A namespace has no such name: ${text.slice('namespace/'.length)}`, 400));
  }
  throw new FormError(boundedText(`A person cannot pause or resume this here: ${text}`, 400));
}

/** As many keys as one page lists, with room. */
const keyList = z
  .array(z.string().refine((text) => decodeObjectKey(text) !== undefined))
  .min(1)
  .max(1000);

function someKeys(keys: readonly string[]): string[] {
  if (keys.length === 0) throw new FormError('No key was selected: mark one or more rows first.');
  const parsed = keyList.safeParse(keys);
  if (!parsed.success) throw new FormError('The form has named something that is no key, or more than 1000 keys.');
  return parsed.data;
}

function selectionOf({ keys, namespace: named, labels }: Fields): KeySelection {
  if (keys.length > 0) {
    return {
      keys: someKeys(keys)
        .map((key) => decodeObjectKey(key))
        .filter((key) => key !== undefined),
    };
  }
  if (named === '' && labels === '') {
    throw new FormError(
      'Nothing was selected: mark rows, or name a namespace or labels. Reconcile all takes all keys.',
    );
  }
  if (named !== '' && !namespace.safeParse(named).success) {
    throw new FormError(boundedText(`A namespace has no such name: ${named}`, 400));
  }
  return {
    selection: {
      ...(named === '' ? {} : { namespace: named }),
      ...(labels === '' ? {} : { labelSelector: labelSelectorOf(labels) }),
    },
  };
}

/** A selector in the form of kubectl's `-l`. @throws SelectorError, FormError */
function labelSelectorOf(text: string): LabelSelector {
  return {
    matchExpressions: parseLabelSelector(text).map(({ key, operator, values }) => {
      if (operator === 'Gt' || operator === 'Lt') throw new FormError('Labels cannot be compared with < or > here.');
      return { key, operator, ...(values.length > 0 ? { values: [...values] } : {}) };
    }),
  };
}
