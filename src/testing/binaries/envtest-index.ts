import { parse } from 'yaml';
import { z } from 'zod';

import { targetPlatform } from './platform.ts';
import { kubernetesVersion } from './versions.ts';

/** The index of setup-envtest in controller-tools. */
export const publishedIndex =
  'https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml';

const indexSchema = z.object({
  releases: z.record(z.string(), z.record(z.string(), z.object({ hash: z.string(), selfLink: z.string() }))),
});

/** An archive in the index. */
export interface EnvtestArchive {
  readonly url: string;
  /** SHA-512, in hexadecimal. */
  readonly hash: string;
}

/**
 * The archive for this machine in the text of an index: for exactly our version of Kubernetes, else for the newest
 * patch of the same minor, since not every patch is published. Undefined if there is none, or if the text is no index.
 */
export function findArchive(text: string, indexUrl: string): EnvtestArchive | undefined {
  const index = indexSchema.safeParse(parseYaml(text));
  if (!index.success) return undefined;
  const { os, arch } = targetPlatform();
  const minor = kubernetesVersion.slice(0, kubernetesVersion.lastIndexOf('.') + 1);
  const versions = Object.keys(index.data.releases)
    .filter((version) => version.startsWith(`v${minor}`) && /^\d+$/.test(version.slice(minor.length + 1)))
    .toSorted((a, b) => Number(b.slice(minor.length + 1)) - Number(a.slice(minor.length + 1)));
  for (const version of [`v${kubernetesVersion}`, ...versions]) {
    const archive = index.data.releases[version]?.[`envtest-${version}-${os}-${arch}.tar.gz`];
    if (archive) return { url: new URL(archive.selfLink, indexUrl).href, hash: archive.hash.toLowerCase() };
  }
  return undefined;
}

function parseYaml(text: string): unknown {
  try {
    return parse(text);
  } catch {
    // For instance the login page of a proxy.
    return undefined;
  }
}
