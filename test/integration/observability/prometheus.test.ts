import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { startFunctionProcess, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { checkRules, Prometheus } from '../../harness/prometheus.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { ReviewFunction } from '../../harness/review-function.ts';
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it, type World } from '../../harness/world.ts';

const FILES = join(import.meta.dirname, '../../../infra/observability');
const RULES = join(FILES, 'rules.yaml');
const JOB = 'levelhook';

interface Board {
  readonly templating: { readonly list: readonly { name: string; type: string; query: string | { query: string } }[] };
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

const board = JSON.parse(readFileSync(join(FILES, 'dashboard.json'), 'utf8')) as Board;

/** As Grafana replaces them while all namespaces and controllers are chosen. */
const VARIABLES: Readonly<Record<string, string>> = {
  job: JOB,
  namespace: '.*',
  controller: '.*',
  __rate_interval: '30s',
};

function replaced(expression: string): string {
  return expression.replaceAll(/\$(\w+)/g, (_, name: string) => {
    const value = VARIABLES[name];
    if (value === undefined) throw new Error(`the board uses $${name}, which the test does not know`);
    return value;
  });
}

/** Metrics of which a busy gateway may have no series, and why. */
const MAY_BE_EMPTY: Readonly<Record<string, string>> = {
  levelhook_recoveries_total: 'no data was lost',
  leader_election_slowpath_total: 'the Lease has one holder, which need not read it again',
  levelhook_reflector_watch_ends_total: 'a watch lasts for five minutes',
};

const panels = board.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => [title, replaced(expr)] as const),
);
const mayBeEmpty = (expression: string): boolean =>
  Object.keys(MAY_BE_EMPTY).some((metric) => expression.includes(`${metric}{`));

describe('a busy gateway that Prometheus scrapes', () => {
  let world: World;
  let prometheus: Prometheus;

  /** A function whose runs end as badly as a test wants. */
  async function badFunction(name: string, timeoutSeconds = 1): Promise<RawFunction> {
    const labelSelector = { matchLabels: { [name]: 'true' } };
    const description = { name, for: { apiVersion: 'v1', kind: 'ConfigMap', labelSelector } };
    return world.started.open(new RawFunction({ ...description, concurrency: 2, timeoutSeconds }));
  }

  const create = (name: string, label: string, data: Record<string, string> = {}) =>
    world.cluster.create(configMaps, {
      metadata: { namespace: world.namespace, name, labels: { [label]: 'true' } },
      data,
    });

  it.beforeAll(async ({ world: made }) => {
    world = made;
    const { cluster, namespace, started } = world;
    const setting = { ...world.setting, kubeconfig: await byName(world.setting.kubeconfig) };
    // Through the cache API.
    const reading = { variables: { REDIS_URL: '', MOODY: 'true' } };
    const moody = started.keep(await startFunctionProcess(setting, 'test/harness/moody-function.ts', reading));
    const [broken, silent, gone] = [
      await badFunction('broken', 10),
      await badFunction('silent'),
      await badFunction('gone'),
    ];
    broken.otherwise = (response) => response.writeHead(500).end();
    silent.otherwise = () => {};
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap' } as const;
    const names = { ...configMap, type: 'validating', name: 'names', operations: ['CREATE'] } as const;
    const guard = await started.open(
      new ReviewFunction(
        { name: 'guard', for: { apiVersion: 'v1', kind: 'Namespace' }, webhooks: [names] },
        setting.secret,
      ),
    );
    const serving = await reviewServing(started, world.setting.kubeconfig);
    const gateway = started.keep(
      await openGateway(setting, [moody.url, broken.url, silent.url, gone.url, guard.url], {
        LEVELHOOK_LEASE: `${namespace}/gateway`,
        ...serving.settings,
      }),
    );
    await untilReady(gateway.url);
    const reviewed = { cluster, started, ca: serving.ca, namespace, name: namespace };
    await configureWebhook(reviewed, `${await reviewsUrl(gateway)}/webhooks/guard`, {
      ...names,
      rule: ['', 'v1', 'configmaps'],
      failurePolicy: 'Ignore',
    });
    await eventually(async () => {
      await cluster.create(configMaps, { metadata: { namespace, generateName: 'reviewed-' } });
      expect(guard.reviews).not.toEqual([]);
    });
    await gone.close();
    for (const label of ['broken', 'silent', 'gone']) await create(label, label);
    await create('failing', 'moody', { fail: 'it fails' });
    await create('terminal', 'moody', { terminal: 'it is hopeless' });
    await create('again', 'moody', { again: '0.5' });
    // Each run writes to its own object and asks for the next run.
    for (let at = 0; at < 4; at += 1) {
      await create(`restless-${at}`, 'moody', { writes: `restless-${at}`, again: '0.001' });
    }
    // A key that is changed during its run is due before the cache shows what the run has written.
    const over = new AbortController();
    started.add(async () => over.abort());
    const change = async (): Promise<void> => {
      for (let count = 0; !over.signal.aborted; count += 1) {
        const annotations = { count: String(count) };
        await cluster
          .patch(configMaps, { namespace, name: 'restless-0' }, { metadata: { annotations } })
          .catch(() => {});
        await sleep(20);
      }
    };
    void change();
    prometheus = await Prometheus.start(started, { gatewayUrl: gateway.url, job: JOB, rules: RULES });
  });

  /** A kubeconfig that names the apiserver, whose address is then looked up. */
  async function byName(kubeconfig: string): Promise<string> {
    const path = join(await world.started.directory(), 'kubeconfig');
    await writeFile(path, (await readFile(kubeconfig, 'utf8')).replace('//127.0.0.1:', '//localhost:'));
    return path;
  }

  it('has all that the rules ask for', async () => {
    expect(await checkRules(RULES)).toContain('rules found');
    const rules = await eventually(async () => {
      const found = await prometheus.rules();
      expect(found.filter(({ health }) => health === 'unknown')).toEqual([]);
      return found;
    });
    expect(rules.length).toBeGreaterThan(20);
    for (const { name, query, lastError, health } of rules) {
      expect(health, `${name}: ${lastError}`).toBe('ok');
      await prometheus.query(query);
    }
    for (const { name, labels, annotations } of rules.filter(({ type }) => type === 'alerting')) {
      expect(labels?.['severity'], name).toMatch(/^(warning|critical)$/);
      expect(annotations?.['summary'], name).toBeTruthy();
      expect(annotations?.['description'], name).toBeTruthy();
    }
  });

  it('has a series for each record', async () => {
    const records = (await prometheus.rules()).filter(({ type }) => type === 'recording');
    expect(records.length).toBeGreaterThan(3);
    await eventually(async () => {
      for (const { name } of records) expect(await prometheus.query(name), name).not.toEqual([]);
    });
  });

  it('shows the circuit of a function that is down, and alerts for none that answers', async () => {
    const open = 'levelhook_circuit_breaker_open{controller="gone"} == 1';
    await eventually(async () => expect(await prometheus.query(open)).not.toEqual([]));
    const down = (await prometheus.rules()).find(({ name }) => name === 'LevelhookFunctionDown');
    expect(down?.alerts?.map(({ labels }) => labels['controller'])).not.toContain('moody');
  });

  it.each(
    board.templating.list.filter(({ type }) => type === 'query').map(({ name, query }) => [name, query] as const),
  )('has values for the variable %s of the board', async (_, query) => {
    const text = typeof query === 'string' ? query : query.query;
    const parts = /^label_values\((.*), (\w+)\)$/.exec(text);
    const [, selector = '', label = ''] = parts ?? [];
    const found = await eventually(async () => {
      const samples = await prometheus.query(replaced(selector));
      expect(samples).not.toEqual([]);
      return samples;
    });
    // Plain Prometheus gives no namespace, which the board allows for.
    if (label !== 'namespace') expect(found.map(({ metric }) => metric[label])).not.toContain(undefined);
  });

  it.each(panels)('shows something in the panel "%s": %s', async (_, expression) => {
    await eventually(async () => {
      const found = await prometheus.query(expression);
      if (!mayBeEmpty(expression)) expect(found).not.toEqual([]);
    });
  });

  it('lists no metric as empty that the board does not use', () => {
    const text = panels.map(([, expression]) => expression).join('\n');
    expect(Object.keys(MAY_BE_EMPTY).filter((metric) => !text.includes(`${metric}{`))).toEqual([]);
    expect(panels.filter(([, expression]) => !mayBeEmpty(expression)).length).toBeGreaterThan(50);
  });

  it('counts what became of the runs of each function', async () => {
    const valueOf = async (expression: string): Promise<number> => {
      const [sample] = await prometheus.query(expression);
      return Number(sample?.value[1] ?? NaN);
    };
    const counted = [
      'controller_runtime_terminal_reconcile_errors_total{controller="moody"}',
      'controller_runtime_reconcile_panics_total{controller="broken"}',
      'controller_runtime_reconcile_timeouts_total{controller="silent"}',
      'levelhook_barrier_wait_seconds_count{controller="moody"}',
      'levelhook_event_to_reconcile_seconds_count{controller="moody"}',
      'rest_client_dns_resolution_duration_seconds_count{host="localhost"}',
      'max_over_time(workqueue_longest_running_processor_seconds{name="silent"}[5m])',
      'max_over_time(workqueue_unfinished_work_seconds{name="silent"}[5m])',
      'informer_store_resource_version{name="v1/ConfigMap"}',
    ];
    await eventually(async () => {
      for (const expression of counted) expect(await valueOf(expression), expression).toBeGreaterThan(0);
    });
    // None of them ends the runs of another.
    expect(await valueOf('controller_runtime_reconcile_panics_total{controller="moody"}')).toBe(0);
    expect(await valueOf('controller_runtime_reconcile_timeouts_total{controller="broken"}')).toBe(0);
    // It grows, and begins anew with each bookmark, about once a minute.
    let before = 0;
    await eventually(async () => {
      const behind = await valueOf('levelhook_view_behind_seconds{resource="v1/Namespace"}');
      const grown = before;
      before = behind;
      expect(behind).toBeLessThan(grown);
    }, 120_000);
  });
});
