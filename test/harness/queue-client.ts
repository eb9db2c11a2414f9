import type { ServedKey } from '../../src/gateway/server/queue-api.ts';

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

  /** What went wrong with a key, the newest first; undefined where it succeeded. */
  async errors(key: string): Promise<(string | undefined)[]> {
    return (await this.status(key)).history.map(({ error }) => error);
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
