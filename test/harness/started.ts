import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster } from './cluster.ts';
import type { Program } from './program.ts';

/** What a test has started: stopped in reverse by `afterAll(() => started.stop())`, however the test ends. */
export class Started {
  readonly #stack = new AsyncDisposableStack();
  #stopping: Promise<void> | undefined;

  /** Remembers how to stop what was just started. */
  add(stop: () => Promise<unknown>): void {
    this.#stack.defer(async () => {
      await stop();
    });
  }

  /** Ends it after the test, if it still runs then. */
  keep<T extends { readonly process: Program }>(started: T): T {
    this.add(() => started.process.end());
    return started;
  }

  /** Opens a server, which is closed at the end. */
  async open<T extends { open(): Promise<void>; close(): Promise<void> }>(server: T): Promise<T> {
    await server.open();
    this.add(() => server.close());
    return server;
  }

  /** Makes a temporary directory, which is removed at the end. */
  async directory(): Promise<string> {
    const directory = await mkdtemp(join(tmpdir(), 'levelhook-test-'));
    this.add(() => rm(directory, { recursive: true }));
    return directory;
  }

  /** The cluster of a kubeconfig, with a namespace of the test's own. */
  async cluster(kubeconfig: string, namespace: string): Promise<Cluster> {
    const cluster = await Cluster.connect(kubeconfig);
    this.add(() => cluster.close());
    await cluster.createNamespace(namespace);
    this.add(() => cluster.deleteNamespace(namespace));
    return cluster;
  }

  /** Stops everything. May be called again: each call waits for the end. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stack.disposeAsync());
  }
}
