import { spawn } from 'node:child_process';
import { messageOf } from '../core/index.ts';
import { askGateway } from './gateway-client.ts';

export interface DevKeysOptions {
  /** URL of the gateway's own server. */
  readonly gateway: string;
  /** One of the gateway's API tokens. */
  readonly apiToken: string;
  readonly controllers: () => readonly string[];
  readonly say: (line: string) => void;
}

/** The keys of `levelhook dev`: `r` reconciles all, `p` pauses and resumes, `d` opens the dashboard, `q` ends it. */
export class DevKeys {
  readonly #options: DevKeysOptions;
  #isPaused = false;

  constructor(options: DevKeysOptions) {
    this.#options = options;
  }

  /** Reads keys until the signal is aborted. Each works without Enter in a terminal. */
  listen(quit: () => void, signal: AbortSignal): void {
    const { say } = this.#options;
    const { stdin } = process;
    const actions: Readonly<Record<string, () => Promise<void> | void>> = {
      r: () => this.#reconcile(),
      p: () => this.#pause(),
      d: () => this.#openDashboard(),
      q: quit,
      // Ctrl-C: a terminal in raw mode sends no signal for it.
      '\u0003': quit,
    };
    const onData = (data: Buffer): void => {
      for (const key of data.toString()) {
        const act = async (): Promise<void> => actions[key]?.();
        act().catch((error: unknown) => say(messageOf(error)));
      }
    };
    if (stdin.isTTY) {
      stdin.setRawMode(true);
      say('r reconcile all   p pause   d dashboard   q quit');
    }
    stdin.on('data', onData);
    // Such as a closed stdin.
    stdin.on('error', () => {});
    signal.addEventListener('abort', () => this.#release(onData), { once: true });
    if (signal.aborted) this.#release(onData);
  }

  #release(onData: (data: Buffer) => void): void {
    const { stdin } = process;
    if (stdin.isTTY) stdin.setRawMode(false);
    stdin.off('data', onData).pause();
  }

  async #reconcile(): Promise<void> {
    const { apiToken, controllers, gateway, say } = this.#options;
    for (const controller of controllers()) {
      const answer = await fetch(new URL('/reconcile', gateway), {
        method: 'POST',
        headers: { authorization: `Bearer ${apiToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ controller, all: true }),
      });
      const { queued, error } = (await answer.json()) as { queued?: number; error?: string };
      say(answer.ok ? `${controller}: ${queued} keys queued` : `${controller}: ${error}`);
    }
  }

  async #pause(): Promise<void> {
    const { controllers, gateway, say } = this.#options;
    const verb = this.#isPaused ? 'resume' : 'pause';
    for (const controller of controllers()) {
      const path = `/queues/${encodeURIComponent(controller)}/${verb}`;
      await askGateway<{ pauses: unknown }>({ gateway }, { path, field: 'pauses', body: { scope: 'controller' } });
      say(`${controller}: ${verb}d`);
    }
    this.#isPaused = !this.#isPaused;
  }

  #openDashboard(): void {
    const { gateway, say } = this.#options;
    const url = `${gateway}/dashboard`;
    say(url);
    const opener = process.platform === 'darwin' ? 'open' : 'xdg-open';
    // Where there is none, the line above is enough.
    spawn(opener, [url], { stdio: 'ignore', detached: true })
      .on('error', () => {})
      .unref();
  }
}
