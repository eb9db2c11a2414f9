import { mkdir } from 'node:fs/promises';

import { systemClock } from '../../core/clock.ts';
import { UserError } from '../../core/errors.ts';
import type { BinaryName } from '../binaries/binary-name.ts';
import { resolveBinary } from '../binaries/resolve-binary.ts';
import { packagePath } from '../package-root.ts';
import { freePort } from '../process/free-port.ts';
import { type OwnDirectory, ownDirectory } from '../process/own-directory.ts';
import { writeAdmissionConfiguration } from './admission-configuration.ts';
import {
  type ControlPlane,
  type ControlPlaneOptions,
  type ControlPlanePart,
  controlPlaneParts,
  type KubeControllerManagerOptions,
} from './control-plane.ts';
import { type UserTokens, writeKubeconfigs, writeTokenFile } from './credentials.ts';
import { keptPlane } from './kept-plane.ts';
import type { PlaneLayout, Ports } from './part-arguments.ts';
import { PlaneApi } from './plane-api.ts';
import { adminName, PlaneFiles } from './plane-files.ts';
import { PlaneProcesses } from './plane-processes.ts';
import { createNodes } from './simulated-nodes.ts';

/**
 * Starts a real etcd and kube-apiserver on loopback, and the further programs in `options`, with new certificates,
 * tokens and ports, and with RBAC. Resolves when all programs are ready, which takes three to five seconds once they
 * are on the machine (see `resolveBinary`).
 *
 * Throws `UserError` when a program cannot be found or built, or ends, or is not ready in time. Then the started
 * programs are stopped, and the directory with their logs stays. Rejects with the reason of `options.signal`.
 *
 *     const plane = await startControlPlane({ kubeControllerManager: true });
 *     try { ... plane.kubeconfig ... } finally { await plane.stop(); }
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const parts = partsOf(options);
  const binaries: Partial<Record<BinaryName, string>> = {};
  for (const part of parts) binaries[part] = await resolveBinary(part, options);

  const startedAt = systemClock.now();
  const directory = await ownDirectory(options.directory, 'levelhook-control-plane-');
  const files = new PlaneFiles(directory.path);
  await mkdir(files.logs, { recursive: true });
  const { ca, credentials, etcdName } = await keptPlane(files, options.users ?? []);
  await writeTokenFile(files.tokens, credentials);
  await writeAdmissionConfiguration(files);
  const layout: PlaneLayout = {
    files,
    ports: await choosePorts(),
    options,
    controllerManager: controllerManagerOf(options),
    stagesFile: packagePath('infra', 'control-plane', 'kwok-stages.yaml'),
    etcdName,
  };
  const server = (): string => `https://127.0.0.1:${layout.ports['kube-apiserver']}`;
  const api = new PlaneApi(server, ca, credentials.get(adminName)?.token ?? '');
  const processes = new PlaneProcesses(layout, api);
  try {
    for (const part of parts) {
      if (part === 'kwok') await createNodes(api, options.kwokNodes ?? 0);
      await processes.startFirst(part, binaries[part] ?? part);
      if (part === 'kube-apiserver') await writeKubeconfigs(files, server(), ca, credentials);
      options.onProgress?.(`${part} is ready after ${((systemClock.now() - startedAt) / 1_000).toFixed(1)} s`);
    }
  } catch (error) {
    await processes.stop();
    await api.close();
    // A temporary directory stays, with its logs.
    if (options.signal?.aborted || options.directory !== undefined) await directory.release();
    throw error;
  }
  return controlPlane({ server: server(), files, directory, binaries, credentials, processes, api });
}

function partsOf(options: ControlPlaneOptions): ControlPlanePart[] {
  const simulated = (options.kwokNodes ?? 0) > 0;
  if (simulated && options.kubeScheduler === false) {
    throw new UserError('kwokNodes needs kube-scheduler: leave kubeScheduler out, or set it to true');
  }
  const wanted: Record<ControlPlanePart, boolean> = {
    etcd: true,
    'kube-apiserver': true,
    'kube-controller-manager': controllerManagerOf(options) !== undefined,
    'kube-scheduler': options.kubeScheduler ?? simulated,
    kwok: simulated,
  };
  return controlPlaneParts.filter((part) => wanted[part]);
}

function controllerManagerOf({ kubeControllerManager }: ControlPlaneOptions): KubeControllerManagerOptions | undefined {
  if (typeof kubeControllerManager === 'object') return kubeControllerManager;
  return kubeControllerManager ? {} : undefined;
}

async function choosePorts(): Promise<Ports> {
  const ports = new Set<number>();
  while (ports.size < 6) ports.add(await freePort());
  const [etcd = 0, peer = 0, apiserver = 0, controllerManager = 0, scheduler = 0, kwok = 0] = ports;
  return {
    etcd,
    'etcd-peer': peer,
    'kube-apiserver': apiserver,
    'kube-controller-manager': controllerManager,
    'kube-scheduler': scheduler,
    kwok,
  };
}

function controlPlane(running: {
  server: string;
  files: PlaneFiles;
  directory: OwnDirectory;
  binaries: ControlPlane['binaries'];
  credentials: UserTokens;
  processes: PlaneProcesses;
  api: PlaneApi;
}): ControlPlane {
  const { server, files, directory, binaries, credentials, processes, api } = running;
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await processes.stop();
    await api.close();
    await directory.release();
  };
  return {
    server,
    kubeconfig: files.kubeconfig(adminName),
    directory: directory.path,
    binaries,
    kubeconfigFor(userName) {
      if (!credentials.has(userName)) throw new UserError(`This control plane has no user "${userName}"`);
      return files.kubeconfig(userName);
    },
    kill: (part, signal = 'SIGKILL') => processes.kill(part, signal),
    async start(part) {
      if (stopping) throw new UserError(`${part} cannot be started: its control plane was stopped`);
      await processes.startAgain(part);
    },
    pid: (part) => processes.pid(part),
    logFile: (part) => files.log(part),
    stop: () => (stopping ??= stop()),
  };
}
