import type { ControllerOptions, Reason } from '../../src/function/index.ts';
import type { Setting } from './levelhook.ts';
import { type Line, TestProcess } from './process.ts';

/**
 * What an observer's controller declares. By default a run may take one second, so that no test waits long for a lost
 * one.
 */
export type ObserverSpec = ControllerOptions;

/** One run of an observer. */
export interface Observation {
  readonly msg: 'observed';
  readonly controller: string;
  /** `namespace/name`, or `name`. */
  readonly key: string;
  /** Of the object in the cache; null when it was not there. */
  readonly uid: string | null;
  readonly resourceVersion: string | null;
  readonly reasons: readonly Reason[];
  readonly attempt: number;
  /** Wall clock, before anything was read. */
  readonly startedAtMs: number;
}

/** An observer function as a process of its own. */
export class Observer {
  readonly name: string;
  readonly process: TestProcess;
  readonly url: string;

  constructor(name: string, process: TestProcess, url: string) {
    this.name = name;
    this.process = process;
    this.url = url;
  }

  /** What it has told so far, in order: all of it, or from the `from`th on, or of one key. */
  seen({ from = 0, key }: { from?: number; key?: string } = {}): Observation[] {
    const all = this.process.lines.filter(isObservation).slice(from);
    return key === undefined ? all : all.filter((each) => each.key === key);
  }

  /** How much it has told: what comes later is `seen({ from })`. */
  get count(): number {
    return this.seen().length;
  }
}

function isObservation(line: Line): line is Line & Observation {
  return line['msg'] === 'observed';
}

/** @param port 0: any free one. */
export async function startObserver(setting: Setting, spec: ObserverSpec, port = 0): Promise<Observer> {
  const process = new TestProcess('test/harness/observer-function.ts', [], {
    LEVELHOOK_SIGNING_SECRETS: setting.secret,
    REDIS_URL: setting.redisUrl,
    KUBECONFIG: setting.kubeconfig,
    HOST: '127.0.0.1',
    PORT: String(port),
    OBSERVER: JSON.stringify(spec),
  });
  const line = await process.line(({ msg }) => msg === 'listening');
  return new Observer(spec.name, process, String(line['url']));
}
