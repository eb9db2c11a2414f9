import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveBinary } from '../../src/testing/index.ts';

export interface E2eOptions {
  /** The administrator's. */
  readonly kubeconfig: string;
  /** Full names of tests of `e2e.test`. */
  readonly tests: readonly string[];
  /** How many run at a time. */
  readonly processes: number;
  /** After this they are interrupted, and have not passed. */
  readonly timeoutSeconds: number;
}

export interface E2eResult {
  /** A test's, or what ginkgo calls a node that belongs to none: `SynchronizedBeforeSuite`. */
  readonly name: string;
  /** ginkgo's: `passed`, `failed`, `timedout`, `interrupted`, ...; `absent` for a test that is not in the report. */
  readonly state: string;
  readonly seconds: number;
  readonly message: string;
}

export interface E2eReport {
  /** One for each of the tests, in their order, and those of failed nodes that belong to none. */
  readonly results: readonly E2eResult[];
  /** ginkgo's: 0 if everything passed. */
  readonly exitCode: number;
  /** The end of what ginkgo wrote. */
  readonly log: string;
}

export function passed({ state }: E2eResult): boolean {
  return state === 'passed';
}

/** A line for each test, to follow the run. */
export function formatResults({ results }: E2eReport): string {
  const lines = results.map(({ name, state, seconds, message }) => {
    const why = state === 'passed' ? '' : ` ${message.replaceAll(/\s+/g, ' ').slice(0, 300)}`;
    return `${state.padEnd(8)} ${seconds.toFixed(1).padStart(6)} s  ${name}${why}`;
  });
  return [...lines, `${results.filter(passed).length} of ${results.length} passed`].join('\n');
}

/** The parts of ginkgo's JSON report that are read here. */
interface Suite {
  SpecReports: {
    LeafNodeType: string;
    ContainerHierarchyTexts: string[] | null;
    LeafNodeText: string;
    State: string;
    RunTime: number;
    NumAttempts: number;
    Failure?: { Message: string };
  }[];
}

/**
 * Runs tests of Kubernetes' own e2e suite, each once, against any cluster. The programs are built when they are not on
 * this machine.
 */
export async function runE2e({ kubeconfig, tests, processes, timeoutSeconds }: E2eOptions): Promise<E2eReport> {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const [ginkgo, e2e, kubectl] = [
    await resolveBinary('ginkgo', { onProgress }),
    await resolveBinary('e2e.test', { onProgress }),
    await resolveBinary('kubectl', { onProgress }),
  ];
  const directory = await mkdtemp(join(tmpdir(), 'levelhook-e2e-'));
  try {
    const args = [
      '--no-color',
      `--procs=${processes}`,
      `--timeout=${timeoutSeconds}s`,
      // What an interrupted test may take for its cleanup.
      '--grace-period=60s',
      '--silence-skips',
      `--output-dir=${directory}`,
      '--json-report=report.json',
      ...tests.map((name) => `--focus=${escaped(name)}$`),
      e2e,
      '--',
      '--provider=skeleton',
      `--kubeconfig=${kubeconfig}`,
      `--kubectl-path=${kubectl}`,
      '--dump-logs-on-failure=false',
      '--disable-log-dump=true',
      '--report-dir=',
      '--minStartupPods=0',
      '--node-schedulable-timeout=1m',
      '--system-pods-startup-timeout=1m',
    ];
    const exitCode = await run(ginkgo, args, directory, kubeconfig);
    const log = (await readFile(join(directory, 'log'), 'utf8')).slice(-20_000);
    const text = await readFile(join(directory, 'report.json'), 'utf8').catch(() => '[]');
    return { results: resultsOf(JSON.parse(text) as Suite[], tests), exitCode, log };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function run(command: string, args: string[], directory: string, kubeconfig: string): Promise<number> {
  const log = openSync(join(directory, 'log'), 'a');
  const { PATH, HOME } = process.env;
  // Without the proxy variables: the apiserver is on this machine.
  const env = { PATH, HOME, TMPDIR: directory, KUBECONFIG: kubeconfig };
  const child = spawn(command, args, { cwd: directory, env, stdio: ['ignore', log, log] });
  closeSync(log);
  const endWithUs = (): boolean => child.kill('SIGTERM');
  process.once('exit', endWithUs);
  const [code] = (await once(child, 'close')) as [number | null];
  process.off('exit', endWithUs);
  return code ?? -1;
}

function resultsOf(suites: readonly Suite[], tests: readonly string[]): E2eResult[] {
  const all = suites.flatMap(({ SpecReports }) => SpecReports);
  const reports = all.map((report) => ({
    name: [...(report.ContainerHierarchyTexts ?? []), report.LeafNodeText].join(' ').trim() || report.LeafNodeType,
    isTest: report.LeafNodeType === 'It',
    // A test that passed at its second attempt has not passed.
    state: report.State === 'passed' && report.NumAttempts > 1 ? 'flaked' : report.State,
    seconds: report.RunTime / 1e9,
    message: report.Failure?.Message ?? '',
  }));
  const absent = (name: string): E2eResult => ({ name, state: 'absent', seconds: 0, message: '' });
  const ofTests = tests.map((name) => reports.find((each) => each.isTest && each.name === name) ?? absent(name));
  const ofNone = reports.filter(({ isTest, state }) => !isTest && state !== 'passed' && state !== 'skipped');
  return [...ofTests, ...ofNone].map(({ name, state, seconds, message }) => ({ name, state, seconds, message }));
}

function escaped(text: string): string {
  return text.replaceAll(/[[\]().*+?^$|{}\\]/g, String.raw`\$&`);
}
