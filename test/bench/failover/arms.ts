import { generateSecret } from '../../../src/contract/index.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { createSetting, startFunctionProcess, startGateway, untilReady } from '../../harness/levelhook.ts';
import { TestProcess } from '../../harness/process.ts';
import type { Started } from '../../harness/started.ts';
import { buildOperator } from '../line/controller-runtime/build.ts';

/** client-go's defaults, for both arms. */
export const LEASE_SECONDS = 15;

export interface FailoverLoad {
  readonly kubeconfig: string;
  /** Of the objects, and of the Lease. */
  readonly namespace: string;
  readonly concurrency: number;
}

/** An arm whose replicas come and go. */
export interface FailoverArm {
  /** Starts one more replica; resolves when it is ready. */
  startReplica(): Promise<TestProcess>;
  /** The processes that write a line for each run: see `line/report.ts`. */
  reporters(): readonly TestProcess[];
}

export type FailoverArmName = keyof typeof failoverArms;

export const failoverArms = {
  'controller-runtime': controllerRuntime,
  levelhook,
} satisfies Readonly<Record<string, (started: Started, load: FailoverLoad) => Promise<FailoverArm>>>;

async function levelhook(started: Started, { kubeconfig, namespace, concurrency }: FailoverLoad): Promise<FailoverArm> {
  const redis = await startRedis({ ignoreEnvironment: true });
  started.add(() => redis.stop());
  const setting = { ...createSetting({ kubeconfig, redisUrl: redis.url }), secret: generateSecret() };
  const fn = started.keep(
    await startFunctionProcess(setting, 'test/bench/line/levelhook/function.ts', {
      variables: { BENCH_NAMESPACE: namespace, BENCH_OBJECTS: '0', BENCH_CONCURRENCY: `${concurrency}` },
    }),
  );
  return {
    async startReplica() {
      const gateway = started.keep(
        await startGateway(setting, [fn.url], {
          LEVELHOOK_LOG_TRIGGERS: 'false',
          LEVELHOOK_LEASE: `${namespace}/levelhook`,
        }),
      );
      await untilReady(gateway.url);
      return gateway.process;
    },
    reporters: () => [fn.process],
  };
}

async function controllerRuntime(
  started: Started,
  { kubeconfig, namespace, concurrency }: FailoverLoad,
): Promise<FailoverArm> {
  const program = await buildOperator((line) => process.stderr.write(`${line}\n`));
  const operators: TestProcess[] = [];
  return {
    async startReplica() {
      // `TestProcess` puts its first argument where Node has the script.
      const operator = new TestProcess(
        kubeconfig,
        [],
        {
          BENCH_NAMESPACE: namespace,
          BENCH_OBJECTS: '0',
          BENCH_CONCURRENCY: `${concurrency}`,
          BENCH_LEASE: `${namespace}/operator`,
        },
        [program],
      );
      started.keep({ process: operator });
      operators.push(operator);
      await operator.line(({ msg }) => msg === 'listening');
      return operator;
    },
    reporters: () => operators,
  };
}
