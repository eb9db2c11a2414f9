import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { findRedis } from '../../src/testing/redis/find-redis.ts';
import { freePort } from '../../src/testing/process/free-port.ts';
import { ManagedProcess, type ProcessSpec } from '../../src/testing/process/managed-process.ts';
import { ProcessRecord } from '../../src/testing/process/process-record.ts';
import { eventually } from './eventually.ts';
import type { Started } from './started.ts';

/** A redis-server on loopback with settings of a test's own: a replica, a Sentinel, a node of a cluster, with TLS. */
export class RedisProcess {
  readonly port: number;
  readonly directory: string;
  readonly #spec: ProcessSpec;
  #running: ManagedProcess;

  private constructor(port: number, spec: ProcessSpec, running: ManagedProcess) {
    this.port = port;
    this.directory = spec.directory;
    this.#spec = spec;
    this.#running = running;
  }

  /**
   * Starts it; it listens soon.
   * @param lines of its configuration, with the port as `PORT`.
   */
  static async start(started: Started, lines: readonly string[], flags: readonly string[] = []): Promise<RedisProcess> {
    const directory = await started.directory();
    const port = await freePort();
    const file = join(directory, 'redis.conf');
    const common = ['bind 127.0.0.1', `dir ${directory}`, 'daemonize no', 'save ""'];
    const own = lines.map((line) => line.replaceAll('PORT', String(port)));
    // Sentinels write to it.
    await writeFile(file, [...common, ...own, ''].join('\n'));
    const args = [file, ...flags];
    const logFile = join(directory, 'redis.log');
    const spec = { name: `redis-${port}`, command: await findRedis(process.env), args, directory, logFile };
    const redis = new RedisProcess(port, spec, await ManagedProcess.start(spec, new ProcessRecord(directory)));
    started.add(() => redis.stop());
    return redis;
  }

  /** A connection for the test itself, without TLS. */
  connect(started: Started): Redis {
    const redis = new Redis({ host: '127.0.0.1', port: this.port, maxRetriesPerRequest: null });
    redis.on('error', () => {});
    started.add(async () => redis.disconnect());
    return redis;
  }

  /** Until it is what a failover has made of it: a master, or a replica that has the master's data. */
  async until(role: 'master' | 'replica', started: Started): Promise<void> {
    const connection = this.connect(started);
    const wanted = role === 'master' ? /^role:master/m : /^role:slave[^]*master_link_status:up/m;
    await eventually(async () => expectText(await connection.info('replication'), wanted));
    connection.disconnect();
  }

  async isMaster(started: Started): Promise<boolean> {
    const connection = this.connect(started);
    const [role] = (await connection.call('ROLE')) as [string];
    connection.disconnect();
    return role === 'master';
  }

  /** From now on its replicas get nothing more from it, until it is started again. Other connections go on. */
  async loseReplicas(started: Started): Promise<void> {
    const connection = this.connect(started);
    // A replica that connects again has no password. Connections that are open need none.
    await connection.config('SET', 'requirepass', 'not-for-replicas');
    await connection.call('CLIENT', 'KILL', 'TYPE', 'replica');
    connection.disconnect();
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await this.#running.kill(signal);
  }

  /** On the same port, with the data of its append-only file, if it has one. */
  async startAgain(): Promise<void> {
    this.#running = await ManagedProcess.start(this.#spec, new ProcessRecord(this.directory));
  }

  async stop(): Promise<void> {
    if (!this.#running.alive) return;
    // A process that is stopped gets no SIGTERM.
    await this.#running.kill('SIGCONT');
    await this.#running.stop();
  }
}

/** A master, a replica, and three Sentinels which agree within a second that it is down. */
export class SentinelSet {
  readonly master: RedisProcess;
  readonly replica: RedisProcess;
  readonly url: string;

  private constructor(master: RedisProcess, replica: RedisProcess, url: string) {
    this.master = master;
    this.replica = replica;
    this.url = url;
  }

  static async start(started: Started): Promise<SentinelSet> {
    const master = await RedisProcess.start(started, ['port PORT', 'appendonly yes']);
    const replicaOf = `replicaof 127.0.0.1 ${master.port}`;
    const replica = await RedisProcess.start(started, ['port PORT', 'appendonly yes', replicaOf]);
    const watching = replica.connect(started);
    await eventually(async () => expectText(await watching.info('replication'), 'master_link_status:up'));
    const settings = [
      'port PORT',
      `sentinel monitor mymaster 127.0.0.1 ${master.port} 2`,
      'sentinel down-after-milliseconds mymaster 1000',
      'sentinel failover-timeout mymaster 5000',
    ];
    const sentinels: RedisProcess[] = [];
    for (let count = 0; count < 3; count += 1) {
      sentinels.push(await RedisProcess.start(started, settings, ['--sentinel']));
    }
    for (const sentinel of sentinels) {
      const connection = sentinel.connect(started);
      await eventually(async () =>
        expectText(await connection.info('sentinel'), /master0:name=mymaster,status=ok,.*slaves=1,sentinels=3/),
      );
    }
    const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',');
    return new SentinelSet(master, replica, `redis+sentinel://${hosts}/mymaster`);
  }
}

/** A Redis Cluster of three masters, of which one has a replica. */
export class RedisClusterNodes {
  readonly masters: readonly RedisProcess[];
  /** Of the last master. */
  readonly replica: RedisProcess;
  /** With the nodes in the same order, the replica last. */
  readonly connections: readonly Redis[];
  readonly url: string;

  private constructor(nodes: readonly RedisProcess[], connections: readonly Redis[]) {
    const [replica, ...masters] = nodes.toReversed();
    if (!replica) throw new Error('no nodes');
    this.replica = replica;
    this.masters = masters.toReversed();
    this.connections = connections;
    this.url = `redis+cluster://${this.masters.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
  }

  static async start(started: Started): Promise<RedisClusterNodes> {
    const nodes: RedisProcess[] = [];
    const settings = ['cluster-enabled yes', 'cluster-node-timeout 2000', 'appendonly yes'];
    for (let count = 0; count < 4; count += 1) {
      // The port of the cluster bus, which is 10,000 above by default, might be no port.
      const bus = await freePort();
      nodes.push(await RedisProcess.start(started, ['port PORT', `cluster-port ${bus}`, ...settings]));
    }
    const connections = nodes.map((node) => node.connect(started));
    const [first, , third, last] = connections;
    if (!first || !third || !last) throw new Error('no nodes');
    const bounds = [0, 5461, 10_923, 16_384];
    for (const [at, connection] of connections.entries()) {
      if (connection !== last) {
        await connection.call('CLUSTER', 'ADDSLOTSRANGE', bounds[at] ?? 0, (bounds[at + 1] ?? 0) - 1);
      }
      await connection.call('CLUSTER', 'SET-CONFIG-EPOCH', at + 1);
      if (connection === first) continue;
      const bus = await connection.config('GET', 'cluster-port');
      await first.call('CLUSTER', 'MEET', '127.0.0.1', nodes[at]?.port ?? 0, bus[1] ?? '');
    }
    for (const connection of connections) {
      await eventually(async () => {
        const info = String(await connection.call('CLUSTER', 'INFO'));
        expectText(info, 'cluster_state:ok');
        expectText(info, 'cluster_known_nodes:4');
      });
    }
    await last.call('CLUSTER', 'REPLICATE', String(await third.call('CLUSTER', 'MYID')));
    await eventually(async () => expectText(await last.info('replication'), 'master_link_status:up'));
    return new RedisClusterNodes(nodes, connections);
  }
}

function expectText(text: string, wanted: string | RegExp): void {
  if (typeof wanted === 'string' ? !text.includes(wanted) : !wanted.test(text)) throw new Error(text);
}
