import { execFile } from 'node:child_process';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { UserError } from '../../src/core/index.ts';
import { findOnPath } from '../../src/testing/process/find-on-path.ts';
import { freePort } from '../../src/testing/process/free-port.ts';
import { endedError, ManagedProcess } from '../../src/testing/process/managed-process.ts';
import { ProcessRecord } from '../../src/testing/process/process-record.ts';
import { eventually } from './eventually.ts';
import type { Started } from './started.ts';

const run = promisify(execFile);

/** A series of an answer, with its value as Prometheus writes it. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [atSeconds: number, value: string];
}

/** A rule as Prometheus has it after its last evaluation. */
export interface Rule {
  readonly type: 'recording' | 'alerting';
  readonly name: string;
  readonly query: string;
  readonly health: 'ok' | 'err' | 'unknown';
  readonly lastError?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly alerts?: readonly { readonly labels: Readonly<Record<string, string>>; readonly state: string }[];
}

export interface PrometheusOptions {
  /** `http://127.0.0.1:port` of a gateway, whose metrics are scraped once a second. */
  readonly gatewayUrl: string;
  readonly job: string;
  /** A file of rules, which are evaluated once a second. */
  readonly rules: string;
}

/** A Prometheus on loopback, of Debian's package. */
export class Prometheus {
  readonly #url: string;

  private constructor(url: string) {
    this.#url = url;
  }

  /** Starts it; resolves when it answers. */
  static async start(started: Started, { gatewayUrl, job, rules }: PrometheusOptions): Promise<Prometheus> {
    const directory = await started.directory();
    await copyFile(rules, join(directory, 'rules.yaml'));
    const config = {
      global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
      rule_files: ['rules.yaml'],
      scrape_configs: [{ job_name: job, static_configs: [{ targets: [new URL(gatewayUrl).host] }] }],
    };
    const file = join(directory, 'prometheus.yml');
    await writeFile(file, stringify(config));
    const address = `127.0.0.1:${await freePort()}`;
    const args = [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=${address}`,
    ];
    const logFile = join(directory, 'prometheus.log');
    const spec = { name: 'prometheus', command: commandOf('prometheus'), args, directory, logFile };
    const running = await ManagedProcess.start(spec, new ProcessRecord(directory));
    started.add(() => running.stop());
    const prometheus = new Prometheus(`http://${address}`);
    await eventually(async () => {
      if (!running.alive) throw endedError(spec);
      const answer = await fetch(`${prometheus.#url}/-/ready`);
      if (!answer.ok) throw new Error(await answer.text());
    });
    return prometheus;
  }

  /** The series of an expression now. @throws Error with Prometheus' message for one that is not valid. */
  async query(expression: string): Promise<readonly Sample[]> {
    const data = await this.#ask<{ result: readonly Sample[] }>('query', new URLSearchParams({ query: expression }));
    return data.result;
  }

  async rules(): Promise<readonly Rule[]> {
    const { groups } = await this.#ask<{ groups: readonly { readonly rules: readonly Rule[] }[] }>('rules');
    return groups.flatMap(({ rules }) => rules);
  }

  async #ask<T>(what: string, parameters = new URLSearchParams()): Promise<T> {
    const answer = await fetch(`${this.#url}/api/v1/${what}?${parameters.toString()}`);
    const body = (await answer.json()) as { status: string; data: T; error?: string };
    if (body.status !== 'success') throw new Error(body.error ?? `${what} failed`);
    return body.data;
  }
}

/** What `promtool check rules` writes. @throws Error with that when the file is not right */
export async function checkRules(file: string): Promise<string> {
  const { stdout } = await run(commandOf('promtool'), ['check', 'rules', '--lint-fatal', file]);
  return stdout;
}

export interface AlertCase {
  readonly alert: string;
  /** The series, with the value that each has all the time. */
  readonly series: Readonly<Record<string, number>>;
  readonly afterMinutes: number;
  /** The labels of each alert that fires then, such as `{controller="web"}`. Other labels than these do not count. */
  readonly firing: readonly string[];
  readonly labels: readonly string[];
}

/** Evaluates a file of rules without a Prometheus. @throws Error with promtool's words when other alerts fire. */
export async function checkAlert(
  started: Started,
  rules: string,
  { alert, series, afterMinutes, firing, labels }: AlertCase,
): Promise<void> {
  const file = join(await started.directory(), 'test.yaml');
  const expr = `group by (${labels.join(', ')}) (ALERTS{alertname="${alert}", alertstate="firing"})`;
  const test = {
    interval: '1m',
    input_series: Object.entries(series).map(([name, value]) => ({
      series: name,
      values: `${value}+0x${afterMinutes}`,
    })),
    promql_expr_test: [
      { expr, eval_time: `${afterMinutes}m`, exp_samples: firing.map((each) => ({ labels: each, value: 1 })) },
    ],
  };
  await writeFile(file, stringify({ rule_files: [rules], evaluation_interval: '1m', tests: [test] }));
  await run(commandOf('promtool'), ['test', 'rules', file]);
}

function commandOf(name: string): string {
  const found = findOnPath([name], process.env['PATH']);
  if (found === undefined) throw new UserError(`There is no ${name} on PATH: install Debian's package prometheus.`);
  return found;
}
