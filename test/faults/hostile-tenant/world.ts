import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { type ObjectKey, type Resource, resource } from '../../../src/core/index.ts';
import { generateSecret } from '../../../src/contract/index.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../../src/testing/index.ts';
import { Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import {
  LONGEST_COMMAND_MS,
  type SlowCommand,
  takeSlowCommands,
  watchSlowCommands,
} from '../../harness/slow-commands.ts';
import { startObserver } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { installReconcileFunctions, ReconcileFunction, settingsFor, Tenant } from '../../harness/tenant.ts';
import { GRANTED_GROUP, type Action, placed, VICTIM_FUNCTION, type Written, WEBHOOK, WRITTEN } from './actions.ts';
import { type Bulk, type BulkObject, fields, textOf, withEntries } from './bulk.ts';
import { FUNCTION_NAMES } from './grammar/names.ts';
import { HostileFunction } from './hostile-function.ts';
import { findInMetrics, findInRedis } from './leftovers.ts';
import { type Findings, Monitor } from './monitor.ts';
import { type Reply, RestrictedUser } from '../../harness/restricted-user.ts';
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
    const admin = new Redis(redis.url, { connectionName: ADMIN });
    started.add(async () => admin.disconnect());
    await admin.config('SET', 'maxmemory', REDIS_MIB * 2 ** 20);
    return new Ground(plane, redis, cluster, admin);
  }
}

/** `redis.maxmemory` of the chart. */
const REDIS_MIB = 256;
/** Redis counts as full beyond this share of it: a burst of another tenant would find no memory. */
const FULL = 0.95;

/** ReconcileFunctions that a namespace runs at most: `LEVELHOOK_MAX_FUNCTIONS_PER_NAMESPACE`. */
const MANY = 50;
/** Commands that take longer are noted. */
const NOTED_MS = 20;
/** The name of the test's own connection. */
const ADMIN = 'admin';
/** Of the tenant's pods, as the gateway sees them. */
const STRANGERS_ADDRESS = '127.0.0.9';

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
  readonly fn: HostileFunction;
  /** In each object of the hostile tenant, to find what is left of it. */
  readonly mark = `mark-${randomBytes(8).toString('hex')}`;
  readonly kinds: HostileKinds;
  user!: RestrictedUser;
  spy!: Spy;
  monitor!: Monitor;
  gateway!: { process: TestProcess; url: string };
  /** Where the gateway takes reviews. */
  reviewsUrl = '';
  /** How the apiserver took what was done, by status. */
  readonly replies = new Map<string, number>();
  readonly #started = new Started();
  readonly #slowCommands: SlowCommand[] = [];
  /** Shares of Redis' memory that were in use. */
  readonly #memory: { readonly share: number; readonly atMs: number }[] = [];

  private constructor(ground: Ground) {
    this.ground = ground;
    this.victim = new Victim(ground.cluster, uniqueName('victim'));
    this.hostile = new Tenant(ground.cluster, uniqueName('hostile'));
    this.fn = new HostileFunction(this.hostile.secret);
    this.kinds = {
      configmaps: configMaps,
      pods,
      secrets,
      services: resource('v1', 'Service'),
      endpointslices: resource('discovery.k8s.io/v1', 'EndpointSlice'),
      serviceaccounts: resource('v1', 'ServiceAccount'),
      events: resource('v1', 'Event'),
      roles: resource('rbac.authorization.k8s.io/v1', 'Role'),
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
    await this.#giveAlternatives();
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
    const serving = await reviewServing(this.#started, plane.kubeconfig);
    this.gateway = this.#started.keep(
      await startGateway(setting, [operator.url], {
        // It knows no apiserver: whoever reaches its port may send reviews.
        ...serving.anonymous,
        ...settingsFor([hostile.namespace, victim.namespace], [fn.url, fn.secure.url, victim.observer.url]),
        // Nothing but rights keeps Secrets from the tenant, and what is in Redis can be searched.
        LEVELHOOK_CACHE_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
        LEVELHOOK_CACHE_COMPRESS_ABOVE: 'off',
        LEVELHOOK_REDIS_USERS: '*',
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
    await watchSlowCommands(ground.admin, NOTED_MS * 1000);
    await victim.declare();
    await this.#configureWebhooks(serving.ca);
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
    const slices = { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'] };
    const roles = { apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'] };
    const core = ['configmaps', 'pods', 'secrets', 'services', 'serviceaccounts', 'events'];
    const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete', 'deletecollection'];
    const rules = [
      { apiGroups: [''], resources: core, verbs },
      { ...slices, verbs },
      { apiGroups: [group], resources: ['things'], verbs },
      { ...roles, verbs },
      // RBAC lets a user grant rights that the user has.
      { apiGroups: [GRANTED_GROUP], resources: ['things'], verbs: ['get'] },
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
    await hostile.allow('own', [{ apiGroups: [''], resources: core }, roles]);
    // Through the gateway, for functions that leave their credentials to it.
    const writing = ['create', 'update', 'patch', 'delete'];
    await hostile.allow('writes', [
      { apiGroups: [''], resources: ['configmaps'], verbs: writing },
      { apiGroups: [group], resources: ['things'], verbs: writing },
    ]);
    await hostile.allowEverywhere(`${namespace}-group`, [{ apiGroups: [group], resources: ['*'] }]);
    this.#started.add(() => hostile.denyEverywhere(`${namespace}-group`).catch(() => {}));
  }

  /** Another account and another secret, to which its ReconcileFunctions may turn. */
  async #giveAlternatives(): Promise<void> {
    const { cluster } = this.ground;
    const { namespace } = this.hostile;
    await cluster.create(resource('v1', 'ServiceAccount'), { metadata: { namespace, name: 'second' } });
    await cluster.create(secrets, {
      metadata: { namespace, name: 'another' },
      stringData: { secrets: generateSecret() },
    });
    await cluster.create(resource('rbac.authorization.k8s.io/v1', 'RoleBinding'), {
      metadata: { namespace, name: 'second' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'own' },
      subjects: [{ kind: 'ServiceAccount', name: 'second', namespace }],
    });
  }

  /** New ConfigMaps of the victim are reviewed by its function, and those of the tenant by one of its own. */
  async #configureWebhooks(ca: string): Promise<void> {
    const { gateway, ground, hostile, victim } = this;
    const url = `${await reviewsUrl(gateway)}/webhooks`;
    this.reviewsUrl = url;
    const options = { cluster: ground.cluster, started: this.#started, ca };
    const rule = ['', 'v1', 'configmaps'] as const;
    const webhook = { type: 'validating', name: WEBHOOK, rule } as const;
    await configureWebhook(
      { ...options, namespace: victim.namespace, name: victim.namespace },
      `${url}/${victim.namespace}.${VICTIM_FUNCTION}`,
      { ...webhook, operations: ['CREATE'] },
    );
    await configureWebhook(
      { ...options, namespace: hostile.namespace, name: hostile.namespace },
      `${url}/${hostile.namespace}.${FUNCTION_NAMES[0]}`,
      { ...webhook, operations: ['CREATE'], failurePolicy: 'Ignore', timeoutSeconds: 1 },
    );
  }

  /** Does one thing as the tenant would. What the apiserver refuses is counted. */
  async act(recorded: Action): Promise<Reply | undefined> {
    const { namespace } = this.hostile;
    const action = placed(recorded, {
      namespace,
      victimNamespace: this.victim.namespace,
      victimUid: this.victim.ownerUid,
      group: this.group,
      functionUrl: this.fn.url,
      secureUrl: this.fn.secure.url,
      secureCa: this.fn.secure.caBundle,
      gatewayUrl: this.gateway.url,
    });
    switch (action.do) {
      case 'put':
        return this.put(action.what, action.name, action.object);
      case 'remove':
        return this.#counted('remove', await this.user.remove(this.kinds[action.what], this.#key(action.name)));
      case 'remove all':
        return this.#counted('remove all', await this.user.removeAll(this.kinds[action.what], namespace));
      case 'declare many':
        return this.#declareMany(action.spec);
      case 'call back':
        return this.#callBack(action);
      case 'review':
        return this.#counted('review', await this.#review(action));
      case 'proxy':
        await this.spy.proxy(action);
        return undefined;
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

  async #declareMany(spec: BulkObject): Promise<Reply | undefined> {
    let last: Reply | undefined;
    for (let at = 0; at < MANY; at += 1) {
      const name = `many-${at}`;
      const endpoint = fields({ url: `${this.fn.url}/${name}` });
      last = await this.put('reconcilefunctions', name, fields({ spec: withEntries(spec, { endpoint }) }));
    }
    return last;
  }

  async #callBack({ controller, body, isSigned }: Action & { do: 'call back' }): Promise<Reply> {
    const url = `${this.gateway.url}/cache/callbacks/${controller}`;
    const text = textOf(body);
    if (isSigned) return this.#counted('call back', { status: await this.fn.send(url, text), text: '' });
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text });
    return this.#counted('call back', { status: answer.status, text: await answer.text() });
  }

  /** From an address of its own, which is not the apiserver's. */
  async #review({ controller, webhook, body }: Action & { do: 'review' }): Promise<Reply> {
    const sent = request(`${this.reviewsUrl}/${controller}/${webhook}?timeout=5s`, {
      method: 'POST',
      rejectUnauthorized: false,
      localAddress: STRANGERS_ADDRESS,
      agent: false,
      headers: { 'content-type': 'application/json' },
    });
    // The gateway closes the connection before it has read what is too large.
    sent.on('error', () => {});
    sent.end(textOf(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const answer = await text(response);
    this.spy.look('review', answer);
    return { status: response.statusCode ?? 0, text: answer };
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
    const slow = this.#slowCommands
      .filter(({ atMs, us }) => {
        // SLOWLOG has the end of a command in whole seconds. It counts time in which the machine stood still.
        const [fromMs, toMs] = [atMs - us / 1000, atMs + 1000];
        if (toMs < sinceMs || us / 1000 <= LONGEST_COMMAND_MS) return false;
        const runningMs = us / 1000 - this.monitor.standstillMs(fromMs, toMs);
        return runningMs > LONGEST_COMMAND_MS * this.monitor.slowdown(fromMs, toMs);
      })
      .map((each) => `command: ${nameOf(each)} took ${Math.round(each.us / 1000)} ms: ${each.what.slice(0, 300)}`);
    const full = this.#memory
      .filter(({ atMs, share }) => atMs >= sinceMs && share > FULL)
      .map(({ share }) => `Redis: ${Math.round(share * 100)} % of its memory is in use`);
    const leaks = this.spy.leaks.map(({ where, text }) => `leak: in ${where}: ${JSON.stringify(text)}`);
    return { violations: [...findings.violations, ...slow, ...full, ...leaks], findings };
  }

  /** Reads from Redis which commands took long, and how much of its memory is in use. */
  async readRedis(): Promise<void> {
    for (const each of await takeSlowCommands(this.ground.admin)) {
      // The test itself reads all of Redis.
      if (each.connection !== ADMIN) this.#slowCommands.push(each);
    }
    const info = await this.ground.admin.info('memory');
    const bytes = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
    this.#memory.push({ share: bytes('used_memory') / bytes('maxmemory'), atMs: Date.now() });
  }

  /** The greatest share of Redis' memory that was in use. */
  get mostMemory(): number {
    return Math.max(...this.#memory.map(({ share }) => share));
  }

  /** The scripts and other commands that took longest, and for how long at most, in milliseconds. */
  slowestCommands(): Record<string, number> {
    const longest = new Map<string, number>();
    for (const each of this.#slowCommands) {
      const name = nameOf(each);
      longest.set(name, Math.max(longest.get(name) ?? 0, Math.round(each.us / 1000)));
    }
    return Object.fromEntries([...longest].toSorted(([, one], [, other]) => other - one));
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

/** The script, or the command with its key. */
function nameOf({ script, what }: SlowCommand): string {
  return script ?? what.split(' ', 2).join(' ');
}
