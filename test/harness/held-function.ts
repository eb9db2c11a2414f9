import { expect } from 'vitest';
import { controller } from 'levelhook/function';
import { type Cluster, configMaps } from './cluster.ts';
import { eventually } from './eventually.ts';
import type { FaultWorld, WorldGateway } from './fault-world.ts';
import { metric, runsOnRecord } from './gateway-view.ts';
import { type Setting, uniqueName } from './levelhook.ts';
import { openFunction } from './opened.ts';
import type { Line, Program } from './program.ts';

const NAME = 'held';
const CONCURRENCY = 10;
const TOKEN = 'the-token-of-the-operator';
const WARNING = 40;

interface HeldRun {
  readonly key: string;
  state: 'goes on' | 'ended' | 'broken off';
}

/** What was going on when a gateway was stopped. */
export interface Stopped {
  readonly gateway: WorldGateway;
  /** The keys that ran on all gateways, and on the stopped one: sorted. */
  readonly inFlight: readonly string[];
  readonly own: readonly string[];
  /** How many runs there were before. */
  readonly fromRun: number;
  readonly fromLines: ReadonlyMap<WorldGateway, number>;
}

/**
 * A function in the test's own process whose runs end when the test says so, over ConfigMaps that nothing else writes.
 * They read through the gateway that has sent the trigger, at their beginning and at their end.
 */
export class HeldFunction {
  /** For gateways that are asked to run its keys. */
  static readonly gatewayVariables: Readonly<Record<string, string>> = { LEVELHOOK_API_TOKENS: TOKEN };

  readonly name = NAME;
  readonly process: Program;
  readonly url: string;
  readonly #namespace: string;
  readonly #runs: HeldRun[];
  readonly #gate: Gate;
  readonly #names: string[] = [];

  private constructor(process: Program, url: string, namespace: string, runs: HeldRun[], gate: Gate) {
    this.process = process;
    this.url = url;
    this.#namespace = namespace;
    this.#runs = runs;
    this.#gate = gate;
  }

  static async open(setting: Setting): Promise<HeldFunction> {
    const [namespace, gate] = [uniqueName('held'), new Gate()];
    const runs: HeldRun[] = [];
    const held = controller({
      name: NAME,
      for: { resource: configMaps, namespaces: [namespace] },
      concurrency: CONCURRENCY,
      timeoutSeconds: 60,
      maxBatch: 3,
    }).reconcile(async (request, { cache, signal }) => {
      const run: HeldRun = { key: `${request.namespace}/${request.name}`, state: 'goes on' };
      runs.push(run);
      try {
        await cache.get(configMaps, request);
        await gate.passed(signal);
        await cache.get(configMaps, request);
      } finally {
        run.state = signal.aborted ? 'broken off' : 'ended';
      }
    });
    const { process, url } = await openFunction({ ...setting, redisUrl: '' }, [held]);
    return new HeldFunction(process, `${url}/${NAME}`, namespace, runs, gate);
  }

  /** Twice as many as may run at a time. */
  async createObjects(world: FaultWorld): Promise<void> {
    await world.cluster.createNamespace(this.#namespace);
    const names = Array.from({ length: 2 * CONCURRENCY }, (_, at) => `cm-${at}`);
    await this.#create(world.cluster, names);
    await this.#untilAllHaveRun(world, 0);
  }

  /** The keys of the runs from the `from`th on, sorted; a key that has run twice is there twice. */
  keys(from = 0): string[] {
    return this.#runs
      .slice(from)
      .map(({ key }) => key)
      .toSorted();
  }

  /**
   * Stops a gateway with SIGTERM while it has as many runs in flight as may be. Lets the runs end once it is stopping
   * and `meanwhile` is over, and waits for its end. Checks that it has exited with 0.
   */
  async stop(world: FaultWorld, gateway: WorldGateway, meanwhile = async () => {}): Promise<Stopped> {
    const fromLines = new Map(world.gateways.map((each) => [each, each.process.lines.length]));
    const fromRun = await this.#holdOn(world, gateway);
    const inFlight = this.keys(fromRun);
    gateway.process.send('SIGTERM');
    await gateway.process.line(({ msg }) => msg === 'stopping');
    await this.#create(
      world.cluster,
      [0, 1, 2].map(() => uniqueName('late')),
    );
    await meanwhile();
    this.#gate.open();
    expect(await gateway.process.exited).toBe(0);
    const lines = gateway.process.lines.slice(fromLines.get(gateway));
    const ended = lines.slice(lines.findIndex(({ msg }) => msg === 'stopping')).filter(isTrigger);
    const own = ended.map(({ key }) => String(key)).toSorted();
    expect(own).not.toEqual([]);
    expect(inFlight).toEqual(expect.arrayContaining(own));
    return { gateway, inFlight, own, fromRun, fromLines };
  }

  /**
   * Until the other gateways have done the rest: each key has run once, no outcome was lost, and the gateway that has
   * stopped has complained of nothing. Another one is in its place by now, so that a failure leaves the world whole.
   */
  async untilEachHasRunOnce(world: FaultWorld, { gateway, fromRun, fromLines }: Stopped): Promise<void> {
    await this.#untilAllHaveRun(world, fromRun);
    expect(this.keys(fromRun)).toEqual(this.#keys());
    // A request about the Lease may be late on a busy machine, and is made again.
    const warnings = gateway.process.lines
      .slice(fromLines.get(gateway))
      .filter(({ level, lease }) => Number(level) >= WARNING && lease === undefined);
    const complaints = warnings.filter((line) => [undefined, NAME].includes(line['controller'] as string | undefined));
    expect(complaints.map((line) => JSON.stringify(line)).join('\n')).toBe('');
    expect(this.#runs.filter(({ state }) => state !== 'ended')).toEqual([]);
    const triggers = [gateway, ...world.gateways].flatMap((each) =>
      each.process.lines.slice(fromLines.get(each) ?? 0).filter(isTrigger),
    );
    expect(triggers.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
    for (const { url } of world.gateways) {
      expect(await metric(url, 'levelhook_lost_outcomes_total', { controller: NAME })).toBe(0);
    }
  }

  /** Asks this gateway to run all keys, until as many as may run are in flight and it has some of them. */
  async #holdOn(world: FaultWorld, { url }: WorldGateway): Promise<number> {
    const body = { controller: NAME, keys: this.#names.map((name) => ({ namespace: this.#namespace, name })) };
    const headers = { authorization: `Bearer ${TOKEN}` };
    for (;;) {
      const from = this.#runs.length;
      this.#gate.close();
      const answer = await fetch(`${url}/reconcile`, { method: 'POST', headers, body: JSON.stringify(body) });
      expect(answer.status).toBe(202);
      await eventually(async () => expect(this.keys(from)).toHaveLength(CONCURRENCY));
      if ((await metric(url, 'controller_runtime_active_workers', { controller: NAME })) > 0) return from;
      // Other gateways have taken all slots.
      this.#gate.open();
      await this.#untilAllHaveRun(world, from);
    }
  }

  async #untilAllHaveRun({ setting, cluster }: FaultWorld, from: number): Promise<void> {
    await eventually(async () => expect([...new Set(this.keys(from))]).toEqual(this.#keys()));
    await eventually(async () => expect(await runsOnRecord(setting, cluster, NAME)).toEqual([]));
  }

  #keys(): string[] {
    return this.#names.map((name) => `${this.#namespace}/${name}`).toSorted();
  }

  async #create(cluster: Cluster, names: readonly string[]): Promise<void> {
    this.#names.push(...names);
    const metadata = names.map((name) => ({ namespace: this.#namespace, name }));
    await Promise.all(metadata.map((each) => cluster.create(configMaps, { metadata: each, data: {} })));
  }
}

function isTrigger({ msg, controller: name }: Line): boolean {
  return msg === 'trigger' && name === NAME;
}

/** Open at first. */
class Gate {
  #opened = Promise.resolve();
  #open: () => void = () => {};

  close(): void {
    ({ promise: this.#opened, resolve: this.#open } = Promise.withResolvers<void>());
  }

  open(): void {
    this.#open();
  }

  async passed(signal: AbortSignal): Promise<void> {
    await Promise.race([
      this.#opened,
      new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
    ]);
  }
}
