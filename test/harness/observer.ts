import type { ControllerOptions, Reason, RelatedSource } from '../../src/function/index.ts';
import { configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import {
  type FunctionProcessOptions,
  type Listening,
  type Setting,
  startFunctionProcess,
  untilIdle,
  untilReady,
} from './levelhook.ts';
import { observerController } from './observer-controller.ts';
import { openFunction, openGateway } from './opened.ts';
import type { TestProcess } from './process.ts';
import { type Line, type Program, ProgramLines } from './program.ts';
import type { Started } from './started.ts';

/**
 * What an observer's controller declares. By default a run may take one second, so that no test waits long for a lost
 * one.
 */
export interface ObserverSpec extends ControllerOptions {
  /** Tells of this namespace's objects only, and not of Kubernetes' own. Default: of all. */
  readonly onlyIn?: string;
  /** The name of a validating webhook that allows each new object of its kind. Default: it has none. */
  readonly allows?: string;
  /** The related objects that each run names. Default: a run names none. */
  readonly names?: readonly RelatedSource[];
  /** How long a run takes after what it told. Default 0. */
  readonly delayMs?: number;
  /** Whether a run reads its object again at its end, after the delay. Default false. */
  readonly readsAgain?: boolean;
}

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
  /** The same moment on `machineMs`' clock. */
  readonly startedAtMachineMs: number;
}

/** A controller that does nothing but tell what it was shown, in a program that it may share with others. */
export class Observer<P extends Program = Program> {
  readonly name: string;
  readonly process: P;
  readonly url: string;

  constructor(name: string, process: P, url: string) {
    this.name = name;
    this.process = process;
    this.url = url;
  }

  /** What it has told so far, in order: all of it, or from the `from`th on, or of one key. */
  seen({ from = 0, key }: { from?: number; key?: string } = {}): Observation[] {
    const all = this.process.lines.filter(isObservation).filter((each) => each.controller === this.name);
    return all.slice(from).filter((each) => key === undefined || each.key === key);
  }

  /** How much it has told: what comes later is `seen({ from })`. */
  get count(): number {
    return this.seen().length;
  }

  /** Keys of which two runs have gone on at the same time. */
  get overlaps(): string[] {
    return this.#keysOf('overlap');
  }

  /** Keys of runs that were broken off, because the caller hung up or the deadline passed. */
  get brokenOff(): string[] {
    return this.#keysOf('broken off');
  }

  /** The keys of its runs from the `from`th on, each once, sorted. */
  keys(from = 0): string[] {
    return [...new Set(this.seen({ from }).map(({ key }) => key))].toSorted();
  }

  /** Until it has run a key, from the `from`th run on, because of this object: `v1/ConfigMap namespace/name`. */
  async untilWokenBy(object: string, from = 0): Promise<void> {
    await eventually(async () => {
      const woken = this.seen({ from }).some(({ reasons }) => reasons.some((reason) => reason.object === object));
      if (!woken) throw new Error(`${this.name} has not been woken by ${object}`);
    });
  }

  #keysOf(message: string): string[] {
    const lines = this.process.lines.filter(({ msg, controller }) => msg === message && controller === this.name);
    return lines.map(({ key }) => String(key));
  }
}

function isObservation(line: Line): line is Line & Observation {
  return line['msg'] === 'observed';
}

/** ConfigMaps of one namespace. A run may take as long as the machine does while other parts are killed. */
export const configMapsOf = (namespace: string): ObserverSpec => ({
  name: 'observer',
  for: configMaps,
  onlyIn: namespace,
  timeoutSeconds: 4,
});

/** An observer as a process of its own, for tests that kill or measure it. */
export async function startObserver(
  setting: Setting,
  spec: ObserverSpec,
  options?: FunctionProcessOptions,
): Promise<Observer<TestProcess>> {
  const { process, url } = await startProcess(setting, spec, options);
  return new Observer(spec.name, process, url);
}

/** Observers that share one process, in the order of what they declare. */
export async function startObservers(
  setting: Setting,
  specs: readonly ObserverSpec[],
): Promise<Observer<TestProcess>[]> {
  const { process, url } = await startProcess(setting, specs);
  return specs.map(({ name }) => new Observer(name, process, `${url}/${name}`));
}

/** An observer in the test's own process. */
export async function openObserver(setting: Setting, spec: ObserverSpec): Promise<Observer> {
  const [observer] = await openObservers(setting, [spec]);
  return observer as Observer;
}

/** Observers behind one server in the test's own process, in the order of what they declare. */
export async function openObservers(setting: Setting, specs: readonly ObserverSpec[]): Promise<Observer[]> {
  const lines = new ProgramLines(`observers ${specs.map(({ name }) => name).join(', ')}`);
  const controllers = specs.map((spec) => observerController(spec, (line) => lines.add(line)));
  const { process, url } = await openFunction(setting, controllers, lines);
  return specs.map(({ name }) => new Observer(name, process, `${url}/${name}`));
}

/**
 * Opens a gateway and an observer for each of these controllers, by name, and waits until all have run what there was.
 * Runs may take long here: the gateway gives a run back when a tenth of its time passes before it is sent, and the next
 * run has no reasons, which these tests look at.
 */
export async function openObserved(
  started: Started,
  setting: Setting,
  controllers: Readonly<Record<string, Omit<ObserverSpec, 'name'>>>,
): Promise<{ observers: ReadonlyMap<string, Observer>; gatewayUrl: string }> {
  const specs = Object.entries(controllers).map(([name, spec]) => ({ timeoutSeconds: 900, ...spec, name }));
  const observers = await openObservers(setting, specs);
  for (const observer of observers) started.keep(observer);
  const urls = observers.map(({ url }) => url);
  const { url: gatewayUrl } = started.keep(await openGateway(setting, urls));
  await untilReady(gatewayUrl);
  await untilIdle(gatewayUrl);
  return { observers: new Map(observers.map((observer) => [observer.name, observer])), gatewayUrl };
}

function startProcess(
  setting: Setting,
  declared: ObserverSpec | readonly ObserverSpec[],
  { variables = {}, ...options }: FunctionProcessOptions = {},
): Promise<Listening> {
  return startFunctionProcess(setting, 'test/harness/observer-function.ts', {
    ...options,
    variables: { OBSERVERS: JSON.stringify(declared), ...variables },
  });
}
