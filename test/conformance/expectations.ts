import { expect } from 'vitest';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { userOf } from '../harness/identity.ts';
import { unusedRights } from '../harness/unused-rights.ts';
import type { WorkloadPlane } from '../harness/workload-plane.ts';
import { e2eList } from './e2e-list.ts';
import { formatResults, passed, runE2e } from './run-e2e.ts';

/** The first run on a machine builds the programs. */
export const BUILD_MS = 15 * 60_000;

export interface FailureOptions {
  readonly timeoutSeconds: number;
  /** Each test waits for longer than this before it fails: else it would fail for a reason of its own. Default 5. */
  readonly waitedSeconds?: number;
}

/** Runs the tests of a list, each once, and expects that all of them pass. */
export async function expectListPasses(
  { plane: { kubeconfig } }: WorkloadPlane,
  list: string,
  options: { readonly processes: number; readonly timeoutSeconds: number },
): Promise<void> {
  const tests = await e2eList(list);
  const report = await runE2e({ kubeconfig, tests, ...options });
  process.stdout.write(`${formatResults(report)}\n`);
  expect(report.results.filter((each) => !passed(each))).toEqual([]);
  expect(report.results.map(({ name }) => name)).toEqual(tests);
  expect(report.exitCode, report.log).toBe(0);
}

/** Runs the tests all at once, since they do nothing but wait, and expects that all of them fail. */
export async function expectTestsFail(
  { plane: { kubeconfig } }: WorkloadPlane,
  tests: readonly string[],
  { timeoutSeconds, waitedSeconds = 5 }: FailureOptions,
): Promise<void> {
  const { results, exitCode, log } = await runE2e({ kubeconfig, tests, processes: tests.length, timeoutSeconds });
  const ofTests = results.filter(({ name }) => tests.includes(name));
  expect(ofTests.filter(passed)).toEqual([]);
  expect(exitCode).not.toBe(0);
  const waited = ofTests.filter(({ seconds }) => seconds > waitedSeconds).map(({ name }) => name);
  expect(waited, log).toEqual(tests);
}

/** How many writes the function of this name has made, of a resource by a verb, that were taken. */
export type CountWrites = (functionName: string, resource: string, verb: string) => number;

/**
 * Expects of the audit log that the built-in controllers made no request, that the gateway wrote nothing but Leases,
 * and that no request was refused for a right that is missing in a `rbac.yaml`.
 * @param replaced names of kube-controller-manager's ServiceAccounts
 */
export async function expectOwnWork(workloads: WorkloadPlane, replaced: readonly string[]): Promise<CountWrites> {
  const requests = await workloads.audit.requests();
  const of = (user: string): AuditedRequest[] => requests.filter((each) => each.user === user);
  const builtIn = (name: string): AuditedRequest[] => of(`system:serviceaccount:kube-system:${name}`);
  for (const name of replaced) expect(builtIn(name)).toEqual([]);
  // Others of kube-controller-manager did: the log would have shown them.
  expect(builtIn('service-account-controller').length).toBeGreaterThan(0);
  // The gateway writes where it dispatches (ADR 0006), and nothing else.
  expect(of(userOf('gateway')).filter((each) => isWrite(each) && each.resource !== 'leases')).toEqual([]);
  expect(requests.filter(({ user, authorized }) => user.startsWith(userOf('')) && !authorized)).toEqual([]);
  for (const name of workloads.functions.keys()) {
    process.stdout.write(`unused rights of ${name}: ${(await unusedRights(requests, name)).join(', ')}\n`);
  }
  return (name, resource, verb) =>
    of(userOf(name)).filter((each) => each.resource === resource && each.verb === verb && each.code < 300).length;
}
