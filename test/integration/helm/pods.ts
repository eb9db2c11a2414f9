import { Redis } from 'ioredis';
import { type KubernetesObject, type Resource, resource } from '../../../src/core/index.ts';
import { forward, ownAddress } from '../../harness/addresses.ts';
import { eventually } from '../../harness/eventually.ts';
import { type PodRoot, type PodSpec, runPod } from '../../harness/pod.ts';
import type { TestProcess } from '../../harness/process.ts';
import type { Started } from '../../harness/started.ts';
import type { Installation } from './installation.ts';

type Workload = KubernetesObject & { spec: { template: { spec: PodSpec } } };
const deployments = resource<Workload>('apps/v1', 'Deployment');
const statefulSets = resource<Workload>('apps/v1', 'StatefulSet');

interface Gateway {
  readonly process: TestProcess;
  readonly url: string;
}

/** The pods of the charts' workloads in the place of nodes: each is a process with an address of its own. */
export class Pods {
  readonly #started: Started;
  readonly #installed: Installation;
  readonly #hosts: Record<string, string> = {};
  #gateways: Gateway[] = [];
  #function: TestProcess | undefined;
  #stopForward: () => Promise<void> = async () => {};
  #redis: { process: TestProcess; client: Redis } | undefined;

  constructor(started: Started, installed: Installation) {
    this.#started = started;
    this.#installed = installed;
    this.#hosts['levelhook-redis.levelhook.svc'] = ownAddress(started);
    this.#hosts['greeting.shop.svc'] = ownAddress(started);
  }

  async startRedis(): Promise<void> {
    const address = this.#hosts['levelhook-redis.levelhook.svc'] ?? '';
    const spec = await this.#specOf(statefulSets, { namespace: 'levelhook', name: 'levelhook-redis' });
    const process = await this.#run({
      namespace: 'levelhook',
      // The claim of the StatefulSet.
      spec: { ...spec, volumes: [...(spec.volumes ?? []), { name: 'data', emptyDir: {} }] },
      root: { kind: 'machine', script: '' },
      append: { '/etc/redis/redis.conf': `bind ${address}\n` },
    });
    const path = 'jsonpath={.data.redis-password}';
    const args = ['--namespace', 'levelhook', 'get', 'secret', 'levelhook-secrets', '--output', path];
    const secret = await this.#installed.kubectl(args);
    const client = new Redis({ host: address, password: Buffer.from(secret, 'base64').toString() });
    client.on('error', () => {});
    this.#started.add(async () => client.disconnect());
    await Promise.race([eventually(async () => client.ping()), process.exited]);
    if (!process.alive) throw new Error(process.output);
    this.#redis = { process, client };
  }

  async redisKeys(): Promise<string[]> {
    return (await this.#redis?.client.keys('*')) ?? [];
  }

  /** A pod of the gateway's Deployment as it is now. */
  async startGateway(): Promise<void> {
    const spec = await this.#specOf(deployments, { namespace: 'levelhook', name: 'levelhook' });
    const address = ownAddress(this.#started);
    const process = await this.#run({
      namespace: 'levelhook',
      spec,
      root: { kind: 'machine', script: 'src/cli/levelhook.js' },
      variables: { LEVELHOOK_HOST: address },
    });
    const { url } = await process.line(({ msg }) => msg === 'listening');
    this.#gateways.push({ process, url: String(url) });
  }

  gateways(): readonly Gateway[] {
    return [...this.#gateways];
  }

  /** Stops it as a kubelet does. @returns its exit code. */
  async stopGateway(gateway: Gateway): Promise<number | string> {
    this.#gateways = this.#gateways.filter((each) => each !== gateway);
    return gateway.process.kill('SIGTERM');
  }

  /** Until the readiness probes of all gateways succeed. */
  async untilReady(): Promise<void> {
    for (const { url, process } of this.#gateways) {
      await eventually(async () => {
        const answer = await fetch(`${url}/readyz`).catch(() => undefined);
        if (!answer?.ok) throw new Error(`${await answer?.text()}\n${process.output.slice(-4000)}`);
      });
    }
  }

  gatewayUrl(): string {
    return this.#gateways[0]?.url ?? '';
  }

  async metrics(): Promise<string> {
    return (await fetch(`${this.gatewayUrl()}/metrics`)).text();
  }

  /** A pod of the function's Deployment, behind its Service. */
  async startFunction(): Promise<void> {
    const spec = await this.#specOf(deployments, { namespace: 'shop', name: 'greeting' });
    const address = ownAddress(this.#started);
    this.#function = await this.#run({
      namespace: 'shop',
      spec,
      root: { kind: 'machine', script: 'functions/examples/01-minimal/node.ts' },
      variables: { HOST: address },
    });
    await this.#function.line(({ msg }) => msg === 'listening');
    const service = { address: this.#hosts['greeting.shop.svc'] ?? '', port: 80 };
    this.#stopForward = await forward(service, { address, port: 8080 });
    this.#started.add(this.#stopForward);
  }

  async stopFunction(): Promise<number | string | undefined> {
    // A Service without pods refuses connections.
    await this.#stopForward();
    return this.#function?.kill('SIGTERM');
  }

  async stopAll(): Promise<void> {
    await this.stopFunction();
    for (const gateway of this.gateways()) await this.stopGateway(gateway);
    this.#redis?.client.disconnect();
    await this.#redis?.process.kill('SIGTERM');
  }

  async #specOf(of: Resource<Workload>, key: { namespace: string; name: string }): Promise<PodSpec> {
    const found = await this.#installed.cluster.get(of, key);
    if (!found) throw new Error(`there is no ${of.kind} ${key.name}`);
    return found.spec.template.spec;
  }

  #run(options: {
    namespace: string;
    spec: PodSpec;
    root: PodRoot;
    variables?: Record<string, string>;
    append?: Record<string, string>;
  }): Promise<TestProcess> {
    const { cluster, plane } = this.#installed;
    return runPod(this.#started, { cluster, kubeconfig: plane.kubeconfig, hosts: this.#hosts, ...options });
  }
}
