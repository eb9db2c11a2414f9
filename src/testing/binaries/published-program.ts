import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';

import { systemClock } from '../../core/clock.ts';
import { messageOf, UserError } from '../../core/errors.ts';
import type { BinaryName } from './binary-name.ts';
import type { ResolveBinaryOptions } from './binary-options.ts';
import { Downloader } from './downloader.ts';
import { targetPlatform } from './platform.ts';
import { kubernetesVersion } from './versions.ts';

/** Kubernetes' own downloads: `v1.36.3/bin/linux/amd64/kubectl`, and beside each its SHA-256 in hexadecimal. */
const KUBERNETES_DOWNLOADS = 'https://dl.k8s.io';
/** The programs that are there for Linux; for other systems there is kubectl alone. */
const PUBLISHED: readonly BinaryName[] = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'];
const TELL_EVERY_MS = 5000;

/** Downloads that this process has failed to reach, so that the next program does not wait for them again. */
const unreachable = new Set<string>();

/**
 * Puts a program of Kubernetes' releases at `target`, whole or not at all. A download that was broken off is continued
 * by the next call.
 * @returns false when it is not published for this machine, or its server cannot be reached.
 * @throws UserError when its hash differs from the published one, because the user must know this.
 */
export async function installPublished(
  name: BinaryName,
  target: string,
  options: ResolveBinaryOptions,
): Promise<boolean> {
  const env = options.env ?? process.env;
  const base = options.kubernetesDownloads ?? env['LEVELHOOK_KUBERNETES_DOWNLOADS'] ?? KUBERNETES_DOWNLOADS;
  if (!base || !PUBLISHED.includes(name) || unreachable.has(base)) return false;
  const { os, arch } = targetPlatform();
  const url = `${base.replace(/\/+$/, '')}/v${kubernetesVersion}/bin/${os}/${arch}/${name}`;
  const downloader = new Downloader(env, options.signal);
  const part = `${target}.part`;
  try {
    const hash = (await downloader.text(`${url}.sha256`)).trim().toLowerCase();
    // Such as the login page of a proxy.
    if (!/^[0-9a-f]{64}$/.test(hash)) throw new Error(`${url}.sha256 is not the hash of a program`);
    await download(downloader, { url, part }, options.onProgress);
    const actual = await sha256Of(part);
    if (actual !== hash) {
      await rm(part);
      throw new UserError(
        `${url} has the SHA-256 ${actual} where the file beside it says ${hash}: nothing of it was kept; check ` +
          'LEVELHOOK_KUBERNETES_DOWNLOADS, or set KUBEBUILDER_ASSETS',
      );
    }
    await chmod(part, 0o755);
    await rename(part, target);
    return true;
  } catch (error) {
    if (error instanceof UserError || options.signal?.aborted) throw error;
    unreachable.add(base);
    options.onProgress?.(`no download of ${name}: ${messageOf(error)}`);
    return false;
  } finally {
    await downloader.close();
  }
}

async function download(
  downloader: Downloader,
  { url, part }: { readonly url: string; readonly part: string },
  onProgress: ((line: string) => void) | undefined,
): Promise<void> {
  const known = await stat(part).then(
    ({ size }) => size,
    () => 0,
  );
  const { body, from, total } = await downloader.stream(url, known);
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);
  onProgress?.(`downloading ${url}${from > 0 ? `, from ${megabytes(from)} MB on` : ''}`);
  let bytes = from;
  let toldMs = systemClock.now();
  await pipeline(
    body,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (systemClock.now() - toldMs > TELL_EVERY_MS) {
          toldMs = systemClock.now();
          onProgress?.(`downloading: ${megabytes(bytes)}${total === undefined ? '' : ` of ${megabytes(total)}`} MB`);
        }
        yield chunk;
      }
    },
    createWriteStream(part, from > 0 ? { flags: 'a' } : {}),
  );
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
