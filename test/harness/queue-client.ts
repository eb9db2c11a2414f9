import type { KeyList, KeyPage } from '../../src/gateway/controller/workqueue/key-status.ts';
import type { ServedKey } from '../../src/gateway/http/server/queue-api.ts';

/** The gateway's `/queues` of one controller, as a person would ask. */
export class QueueClient {
  readonly #url: string;

  constructor(gatewayUrl: string, controller: string) {
    this.#url = `${gatewayUrl}/queues/${controller}`;
  }

  async status(key: string): Promise<ServedKey> {
    const answer = await fetch(`${this.#url}/keys/${key}`);
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as ServedKey;
  }

  /** What went wrong with the runs of a key that have ended, the newest first; undefined where one succeeded. */
  async errors(key: string): Promise<(string | undefined)[]> {
    const { history } = await this.status(key);
    const ended = history.filter(({ outcome }) => !['accepted', 'unknown', 'deferred', 'not-sent'].includes(outcome));
    return ended.map(({ error }) => error);
  }

  /** The first keys in one of the queue's lists, sorted. */
  async keysIn(list: KeyList): Promise<string[]> {
    const answer = await fetch(`${this.#url}/keys?list=${list}`);
    if (!answer.ok) throw new Error(await answer.text());
    return ((await answer.json()) as KeyPage).keys.map(({ key }) => key).toSorted();
  }

  async pause(): Promise<void> {
    await this.#post('pause');
  }

  async resume(): Promise<void> {
    await this.#post('resume');
  }

  async #post(what: 'pause' | 'resume'): Promise<void> {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ scope: 'controller' });
    const answer = await fetch(`${this.#url}/${what}`, { method: 'POST', headers, body });
    if (!answer.ok) throw new Error(await answer.text());
  }
}
