import { setTimeout as sleep } from 'node:timers/promises';

/** Figures of pages that were open. */
export interface Visits {
  /** Pages that were loaded, and brought up to date since. */
  pages: number;
  /** Characters of these pages and of all events. */
  characters: number;
  /** Events with runs that streams have sent. */
  events: number;
}

/**
 * Keeps pages of the dashboard open, as `assets/live.js` does in a browser: it asks for a page again as often as the
 * page says, and reads its stream of runs if it has one. It parses and draws nothing, which a browser would do on a
 * machine of its own.
 */
export class OpenPages {
  readonly visits: Visits = { pages: 0, characters: 0, events: 0 };
  readonly #closing = new AbortController();
  readonly #open: Promise<unknown>[] = [];

  /** @param urls one page each; they are opened one after another in the course of a second. */
  constructor(urls: readonly string[]) {
    for (const [at, url] of urls.entries()) this.#open.push(this.#visit(url, (1000 * at) / urls.length));
  }

  /** @throws what a page has failed with. */
  async close(): Promise<Visits> {
    this.#closing.abort();
    const ends = await Promise.allSettled(this.#open);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    return this.visits;
  }

  async #visit(url: string, afterMs: number): Promise<void> {
    const { signal } = this.#closing;
    try {
      await sleep(afterMs, undefined, { signal });
      for (;;) {
        const page = await this.#load(url);
        const stream = /data-stream="([^"]+)"/.exec(page)?.[1];
        const everyMs = Number(/data-refresh="(\d+)"/.exec(page)?.[1] ?? 0);
        if (stream !== undefined) await this.#follow(new URL(stream.replaceAll('&amp;', '&'), url));
        else if (everyMs > 0) await sleep(everyMs, undefined, { signal });
        else throw new Error(`${url} does not come up to date by itself`);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #load(url: string): Promise<string> {
    const { signal } = this.#closing;
    const answer = await fetch(url, { headers: { accept: 'text/html' }, redirect: 'error', signal });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    this.visits.pages += 1;
    this.visits.characters += text.length;
    return text;
  }

  async #follow(url: URL): Promise<void> {
    const { signal } = this.#closing;
    const answer = await fetch(url, { headers: { accept: 'text/event-stream' }, signal });
    if (!answer.ok || !answer.body) throw new Error(`${url.href}: ${answer.status}`);
    for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
      this.visits.characters += part.length;
      this.visits.events += part.split('\n').filter((line) => line.startsWith('id:')).length;
    }
  }
}
