import { generateSecret } from '../../../src/contract/index.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { createSetting, startFunctionProcess, startGateway } from '../../harness/levelhook.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { TestProcess } from '../../harness/process.ts';
import type { Started } from '../../harness/started.ts';
import { buildOperator } from './controller-runtime/build.ts';

/** The objects of an arm, and how its reconciler runs. */
export interface ArmLoad {
  readonly kubeconfig: string;
  readonly namespace: string;
  /** Number of objects in the namespace. */
  readonly objects: number;
  /** Runs at a time. */
  readonly concurrency: number;
}

/** An arm whose processes run. */
export interface RunningArm {
  /** When the process that watches was started, on `machineMs`' clock. */
  readonly startedAtMs: number;
  /** Process ids by name. */
  readonly pids: Readonly<Record<string, number>>;
  readonly redisUrl?: string;
  /** The process that writes the lines of `report.ts`. */
  readonly reporter: TestProcess;
  /** The process that watches. If it ends, the reporter writes nothing more. */
  readonly watcher: TestProcess;
}

export type ArmName = keyof typeof arms;

/** Starts the processes of an arm, each with a Redis of its own if it needs one. `started` stops them. */
export type StartArm = (started: Started, load: ArmLoad) => Promise<RunningArm>;

export const arms = {
  prototype,
  'controller-runtime': controllerRuntime,
  informer,
  levelhook,
} satisfies Readonly<Record<string, StartArm>>;

async function prototype(started: Started, load: ArmLoad): Promise<RunningArm> {
  const redis = await startArmRedis(started);
  const secret = generateSecret();
  const given = [load.kubeconfig, redis.url];
  const fn = new TestProcess('test/bench/line/prototype/function.ts', [...given, secret], variablesOf(load));
  started.keep({ process: fn });
  const url = String((await fn.line(({ msg }) => msg === 'listening'))['url']);
  const startedAtMs = machineMs();
  const gateway = new TestProcess(
    'test/bench/line/prototype/gateway.ts',
    [...given, url, secret, String(load.concurrency)],
    {},
  );
  started.keep({ process: gateway });
  await gateway.line(({ msg }) => msg === 'listening');
  const pids = { gateway: gateway.pid, function: fn.pid, redis: redis.pid };
  return { startedAtMs, pids, redisUrl: redis.url, reporter: fn, watcher: gateway };
}

async function levelhook(started: Started, load: ArmLoad): Promise<RunningArm> {
  const redis = await startArmRedis(started);
  const setting = createSetting({ kubeconfig: load.kubeconfig, redisUrl: redis.url });
  const batch = process.env['BENCH_BATCH'];
  const fn = started.keep(
    await startFunctionProcess(setting, 'test/bench/line/levelhook/function.ts', {
      variables: { ...variablesOf(load), ...(batch !== undefined && { BENCH_BATCH: batch }) },
    }),
  );
  const startedAtMs = machineMs();
  const gateway = started.keep(
    await startGateway(setting, [fn.url], {
      // A deployed gateway logs no line for each trigger.
      LEVELHOOK_LOG_TRIGGERS: 'false',
    }),
  );
  const pids = { gateway: gateway.process.pid, function: fn.process.pid, redis: redis.pid };
  return { startedAtMs, pids, redisUrl: redis.url, reporter: fn.process, watcher: gateway.process };
}

async function controllerRuntime(started: Started, load: ArmLoad): Promise<RunningArm> {
  const program = await buildOperator(say);
  const startedAtMs = machineMs();
  // `TestProcess` puts its first argument where Node has the script.
  const operator = new TestProcess(load.kubeconfig, [], variablesOf(load), [program]);
  started.keep({ process: operator });
  await operator.line(({ msg }) => msg === 'listening');
  return { startedAtMs, pids: { operator: operator.pid }, reporter: operator, watcher: operator };
}

async function informer(started: Started, load: ArmLoad): Promise<RunningArm> {
  const startedAtMs = machineMs();
  const operator = new TestProcess('test/bench/line/informer/operator.ts', [load.kubeconfig], variablesOf(load));
  started.keep({ process: operator });
  await operator.line(({ msg }) => msg === 'listening');
  return { startedAtMs, pids: { operator: operator.pid }, reporter: operator, watcher: operator };
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function startArmRedis(started: Started): Promise<{ url: string; pid: number }> {
  const redis = await startRedis({ onProgress: say, ignoreEnvironment: true });
  started.add(() => redis.stop());
  return { url: redis.url, pid: redis.pid ?? 0 };
}

function variablesOf({ namespace, objects, concurrency }: ArmLoad): Record<string, string> {
  return { BENCH_NAMESPACE: namespace, BENCH_OBJECTS: `${objects}`, BENCH_CONCURRENCY: `${concurrency}` };
}
