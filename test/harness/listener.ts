import { expect } from 'vitest';
import { controller, type ControllerOptions } from 'levelhook/function';
import type { Reason } from '../../src/contract/index.ts';
import { eventually } from './eventually.ts';
import { type Setting, startGateway, untilIdle, untilReady } from './levelhook.ts';
import { ServedFunction } from './served-function.ts';
import type { Started } from './started.ts';

/** A controller that does nothing but remember what it was asked for, and why. */
export class Listener {
  readonly name: string;
  readonly url: string;
  readonly #fn: ServedFunction;

  private constructor(name: string, fn: ServedFunction) {
    this.name = name;
    this.url = fn.url;
    this.#fn = fn;
  }

  static async start(started: Started, setting: Setting, options: ControllerOptions): Promise<Listener> {
    const declared = controller({ timeoutSeconds: 5, concurrency: 10, ...options });
    const fn = new ServedFunction(
      declared.reconcile(async () => {}),
      setting,
    );
    await fn.open();
    started.add(() => fn.close());
    return new Listener(options.name, fn);
  }

  /** All requests so far, or those from the `from`th on. */
  runs(from = 0): { readonly key: string; readonly reasons: readonly Reason[] }[] {
    const requests = this.#fn.triggers.flatMap((trigger) => trigger.requests);
    return requests
      .slice(from)
      .map(({ namespace, name, reasons }) => ({ key: namespace ? `${namespace}/${name}` : name, reasons }));
  }

  get count(): number {
    return this.runs().length;
  }

  /** The keys of the runs from the `from`th on, each once, in order. */
  keys(from = 0): string[] {
    return [...new Set(this.runs(from).map(({ key }) => key))].toSorted();
  }

  /** Until it has run a key because of that object. */
  async heardOf(object: string, from = 0): Promise<void> {
    await eventually(async () => {
      const heard = this.runs(from).some(({ reasons }) => reasons.some((reason) => reason.object === object));
      expect(heard, `${this.name} has not heard of ${object}`).toBe(true);
    });
  }
}

/** A gateway with a listener for each of these controllers, by name, once all have run what there was. */
export async function startListeners(
  started: Started,
  setting: Setting,
  controllers: Readonly<Record<string, Omit<ControllerOptions, 'name'>>>,
): Promise<{ listeners: Map<string, Listener>; gatewayUrl: string }> {
  const listeners = new Map<string, Listener>();
  for (const [name, options] of Object.entries(controllers)) {
    listeners.set(name, await Listener.start(started, setting, { name, ...options }));
  }
  const urls = [...listeners.values()].map(({ url }) => url);
  const { url } = started.keep(await startGateway(setting, urls));
  await untilReady(url);
  await untilIdle(url);
  return { listeners, gatewayUrl: url };
}
