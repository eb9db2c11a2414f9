import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { type ObjectKey, type Resource, resource } from '../../../src/core/index.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../../src/testing/index.ts';
import { Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { startObserver } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from '../../harness/tenant.ts';
import { type Action, placed, type Written, WRITTEN } from './actions.ts';
import { type Bulk, type BulkObject, fields, textOf, withEntries } from './bulk.ts';
import { HostileFunction } from './hostile-function.ts';
import { findInMetrics, findInRedis } from './leftovers.ts';
import { type Findings, Monitor } from './monitor.ts';
import { type Reply, RestrictedUser } from './restricted-user.ts';
import { Spy } from './spy.ts';
import { CONFIG_LABEL, secrets, Victim } from './victim.ts';

const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

/** The kinds that the hostile tenant writes. */
export type HostileKinds = Readonly<Record<Written, Resource>>;

/** A control plane and a Redis that worlds share, one after the other: what they hold is these tests' alone. */
export class Ground {
  readonly plane: ControlPlane;
  readonly redis: RedisServer;
  readonly cluster: Cluster;
  readonly admin: Redis;

  private constructor(plane: ControlPlane, redis: RedisServer, cluster: Cluster, admin: Redis) {
    this.plane = plane;
    this.redis = redis;
    this.cluster = cluster;
    this.admin = admin;
  }

  static async start(started: Started): Promise<Ground> {
    const redis = await startRedis({ ignoreEnvironment: true });
    started.add(() => redis.stop());
    const plane = await startControlPlane({
      kubeControllerManager: { controllers: ['namespace-controller', 'serviceaccount-controller'] },
    });
    started.add(() => plane.stop());
    const cluster = await Cluster.connect(plane.kubeconfig);
    started.add(() => cluster.close());
    await installReconcileFunctions(cluster);
    const admin = new Redis(redis.url);
    started.add(async () => admin.disconnect());
    return new Ground(plane, redis, cluster, admin);
  }
}

/** The name of the operator's own function. */
const OPERATOR = 'operator';

/**
 * A gateway with two tenants: a victim, and a hostile one that may write in its own namespace alone. A monitor looks
 * whether the victim's function sees each of the victim's changes, and so does a function of the operator's that the
 * gateway is configured with, which reads all namespaces and so meets the hostile objects as well.
 */
export class World {
  readonly ground: Ground;
  readonly victim: Victim;
  /** Its namespace, ServiceAccount and Secret are as any tenant's. */
  readonly hostile: Tenant;
  readonly fn = new HostileFunction();
  /** In each object of the hostile tenant, to find what is left of it. */
  readonly mark = `mark-${randomBytes(8).toString('hex')}`;
  readonly kinds: HostileKinds;
  user!: RestrictedUser;
  spy!: Spy;
  monitor!: Monitor;
  gateway!: { process: TestProcess; url: string };
  /** How the apiserver took what was done, by status. */
  readonly replies = new Map<string, number>();
  readonly #started = new Started();

  private constructor(ground: Ground) {
    this.ground = ground;
    this.victim = new Victim(ground.cluster, uniqueName('victim'));
    this.hostile = new Tenant(ground.cluster, uniqueName('hostile'));
    this.kinds = {
      configmaps: configMaps,
      pods,
      secrets,
      services: resource('v1', 'Service'),
      serviceaccounts: resource('v1', 'ServiceAccount'),
      events: resource('v1', 'Event'),
      things: resource(`${this.group}/v1`, 'Thing'),
      reconcilefunctions: ReconcileFunction,
    };
  }

  /** The API group that is the hostile tenant's own. */
  get group(): string {
    return `${this.hostile.namespace}.example.com`;
  }

  static async start(ground: Ground, variables: Readonly<Record<string, string>> = {}): Promise<World> {
    const world = new World(ground);
    try {
      await world.#start(variables);
      return world;
    } catch (error) {
      await world.stop();
      throw error;
    }
  }

  async #start(variables: Readonly<Record<string, string>>): Promise<void> {
    const { ground, hostile, victim, fn } = this;
    const { cluster, plane, redis } = ground;
    for (const { namespace } of [victim, hostile]) {
      await cluster.createNamespace(namespace);
      this.#started.add(() => cluster.deleteNamespace(namespace).catch(() => {}));
    }
    await this.#defineThings();
    await hostile.create();
    await this.#allow();
    const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    await victim.start(this.#started, setting);
    await fn.open();
    this.#started.add(() => fn.close());
    const operator = this.#started.keep(
      await startObserver(setting, {
        name: OPERATOR,
        for: configMaps,
        owns: [pods],
        watches: [{ resource: secrets, map: { by: 'label', label: CONFIG_LABEL } }],
        timeoutSeconds: 5,
      }),
    );
    this.gateway = this.#started.keep(
      await startGateway(setting, [operator.url], {
        ...settingsFor([hostile.namespace, victim.namespace], [fn.url, victim.observer.url]),
        // Nothing but rights keeps Secrets from the tenant, and what is in Redis can be searched.
        LEVELHOOK_CACHE_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
        LEVELHOOK_CACHE_COMPRESS_ABOVE: 'off',
        LEVELHOOK_REDIS_USERS: 'true',
        LEVELHOOK_LOG_TRIGGERS: 'false',
        ...variables,
      }),
    );
    this.spy = new Spy({
      secretTexts: victim.secretTexts,
      namespace: hostile.namespace,
      victimNamespace: victim.namespace,
      user: this.user,
      kinds: this.kinds,
      redisUrl: redis.url,
      admin: ground.admin,
      signingSecret: hostile.secret,
    });
    fn.onDelivery = (delivery) => this.spy.receive(delivery);
    await untilReady(this.gateway.url);
    await victim.declare();
    this.monitor = this.#started.keep(
      Monitor.start(plane.kubeconfig, victim, [victim.observer, operator], this.gateway),
    );
    await eventually(async () => expect(this.monitor.findings().seen).toBeGreaterThan(5));
  }

  /** A kind whose objects may hold anything. */
  async #defineThings(): Promise<void> {
    const { cluster } = this.ground;
    const name = `things.${this.group}`;
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    await cluster.create(definitions, {
      metadata: { name },
      spec: {
        group: this.group,
        scope: 'Namespaced',
        names: { kind: 'Thing', plural: 'things', singular: 'thing', listKind: 'ThingList' },
        versions: [{ name: 'v1', served: true, storage: true, schema, subresources: { status: {} } }],
      },
    });
    this.#started.add(() => cluster.delete(definitions, { name }).catch(() => {}));
    await eventually(async () => cluster.list(this.kinds.things));
  }

  /** The user writes in its namespace; the account of its functions reads there, and all objects of its own group. */
  async #allow(): Promise<void> {
    const { ground, group, hostile } = this;
    const core = ['configmaps', 'pods', 'secrets', 'services', 'serviceaccounts', 'events'];
    const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete', 'deletecollection'];
    const rules = [
      { apiGroups: [''], resources: core, verbs },
      { apiGroups: [group], resources: ['things'], verbs },
      { apiGroups: ['levelhook.dev'], resources: ['reconcilefunctions'], verbs },
    ];
    const { namespace } = hostile;
    this.user = await RestrictedUser.create(
      ground.cluster,
      ground.plane.kubeconfig,
      { namespace, name: 'mallory' },
      rules,
    );
    this.#started.add(() => this.user.close());
    await hostile.allow('own', [{ apiGroups: [''], resources: core }]);
    await hostile.allowEverywhere(`${namespace}-group`, [{ apiGroups: [group], resources: ['*'] }]);
    this.#started.add(() => hostile.denyEverywhere(`${namespace}-group`).catch(() => {}));
  }

  /** Does one thing as the tenant would. What the apiserver refuses is counted. */
  async act(recorded: Action): Promise<Reply | undefined> {
    const { namespace } = this.hostile;
    const action = placed(recorded, {
      namespace,
      victimNamespace: this.victim.namespace,
      group: this.group,
      functionUrl: this.fn.url,
      gatewayUrl: this.gateway.url,
    });
    switch (action.do) {
      case 'put':
        return this.put(action.what, action.name, action.object);
      case 'remove':
        return this.#counted('remove', await this.user.remove(this.kinds[action.what], this.#key(action.name)));
      case 'behave':
        this.fn.behave(action.as);
        return undefined;
      case 'ask':
        await this.spy.ask(action.path);
        return undefined;
    }
  }

  /**
   * @param object without apiVersion, kind, namespace and name, which are the tenant's own unless it says otherwise
   *   itself.
   */
  async put(what: Written, name: string, object: BulkObject): Promise<Reply> {
    const { apiVersion, kind } = this.kinds[what];
    const metadata = object.fields.find(([key]) => key === 'metadata')?.[1];
    const given = isObject(metadata) ? metadata : fields({});
    const labels = given.fields.find(([key]) => key === 'labels')?.[1];
    const whole = fields({
      apiVersion,
      kind,
      ...Object.fromEntries(object.fields.filter(([key]) => key !== 'metadata')),
      metadata: withEntries(
        { fields: given.fields.filter(([key]) => !['name', 'namespace', 'labels'].includes(key)) },
        {
          namespace: this.hostile.namespace,
          name,
          labels: withEntries(isObject(labels) ? labels : fields({}), {
            // What tells this gateway which ReconcileFunctions are its own.
            'test.levelhook.dev/gateway': this.hostile.namespace,
            mark: this.mark,
          }),
        },
      ),
    });
    return this.#counted(what, await this.user.put(this.kinds[what], this.#key(name), textOf(whole)));
  }

  /** A ReconcileFunction of the tenant's, at its own function. */
  declare(name: string, spec: Readonly<Record<string, Bulk | undefined>>): Promise<Reply> {
    return this.put('reconcilefunctions', name, fields({ spec: this.specOf(name, spec) }));
  }

  specOf(name: string, spec: Readonly<Record<string, Bulk | undefined>>): BulkObject {
    return fields({
      endpoint: fields({ url: `${this.fn.url}/${name}` }),
      serviceAccountName: 'reader',
      signingSecret: fields({ name: 'signing' }),
      timeoutSeconds: 1,
      ...spec,
    });
  }

  /** A kind of the tenant's own namespace, as a source names it. */
  source(what: Written, more: Readonly<Record<string, Bulk | undefined>> = {}): BulkObject {
    const { apiVersion, kind } = this.kinds[what];
    return fields({ apiVersion, kind, namespaces: [this.hostile.namespace], ...more });
  }

  /** How many of its ReconcileFunctions are ready, and why the others are not. */
  async conditions(): Promise<Record<string, number>> {
    const { items } = await this.ground.cluster.list(ReconcileFunction, this.hostile.namespace);
    const reasons = items.map(({ status }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      return `${ready?.status ?? 'Unknown'} ${ready?.reason ?? ''}`;
    });
    return Object.fromEntries(
      [...Map.groupBy(reasons, (each) => each)].map(([reason, { length }]) => [reason, length]),
    );
  }

  /** The tenant takes away all that it has made, and an administrator its namespace and its kind. */
  async deleteHostile(): Promise<void> {
    const { cluster } = this.ground;
    const { namespace } = this.hostile;
    await this.user.removeAll(ReconcileFunction, namespace);
    await cluster.deleteNamespace(namespace);
    await eventually(
      async () => {
        const found = await cluster.get(resource('v1', 'Namespace', { namespaced: false }), { name: namespace });
        expect(found, 'the namespace of the hostile tenant is still being deleted').toBeUndefined();
      },
      90_000,
      500,
    );
    await cluster.delete(definitions, { name: `things.${this.group}` });
  }

  /** Where something of the hostile tenant is left: in Redis and in the metrics. */
  async leftovers(): Promise<string[]> {
    const texts = [this.hostile.namespace, this.mark];
    const [inRedis, inMetrics] = [
      await findInRedis(this.ground.admin, texts),
      await findInMetrics(this.gateway.url, texts),
    ];
    return [...inRedis, ...inMetrics.map((line) => `the series ${line}`)];
  }

  /** What was wrong since then, in words. */
  violations(sinceMs = 0): { violations: string[]; findings: Findings } {
    const findings = this.monitor.findings(sinceMs);
    const leaks = this.spy.leaks.map(({ where, text }) => `leak: in ${where}: ${JSON.stringify(text)}`);
    return { violations: [...findings.violations, ...leaks], findings };
  }

  /** What the gateway said meanwhile, for the message of a failed assertion. */
  evidence(): string {
    const said = this.gateway.process.lines
      .filter(({ level }) => Number(level) >= 40)
      .map(({ msg, controller, resource, error }) =>
        JSON.stringify({ msg, controller, resource, error }).slice(0, 300),
      );
    const counts = Map.groupBy(said, (each) => each);
    const most = [...counts].toSorted(([, a], [, b]) => b.length - a.length).slice(0, 12);
    return [
      `readyz said: ${JSON.stringify(this.monitor.complaints().slice(0, 6))}`,
      ...most.map(([line, { length }]) => `the gateway logged ${length} times: ${line}`),
    ].join('\n');
  }

  /** Stops the gateway, and takes away what the tenants have made, so that the next world does not see it. */
  async stop(): Promise<void> {
    await this.gateway?.process.kill('SIGKILL');
    if (this.user) {
      for (const what of WRITTEN) await this.user.removeAll(this.kinds[what], this.hostile.namespace);
    }
    await this.#started.stop();
    await this.ground.admin.flushall();
  }

  #key(name: string): ObjectKey {
    return { namespace: this.hostile.namespace, name };
  }

  #counted(what: string, reply: Reply): Reply {
    const kind = `${what} ${reply.status}`;
    this.replies.set(kind, (this.replies.get(kind) ?? 0) + 1);
    return reply;
  }
}

function isObject(bulk: Bulk | undefined): bulk is BulkObject {
  return typeof bulk === 'object' && bulk !== null && 'fields' in bulk;
}
