import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { messageOf, resource, resourcePath, UserError } from '../core/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';

export const DEFINITION = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });

/** Finds CustomResourceDefinitions: `*.crd.yaml` in the folder of a function's entry, `crds/*.yaml` in a project's. */
export function definitionsOf(folder: string): string[] {
  return globSync(['*.crd.yaml', 'crds/*.yaml'], { cwd: folder })
    .toSorted()
    .map((file) => join(folder, file));
}

/** Applies definitions (server-side apply). @throws UserError for a file that the cluster refuses. */
export async function applyDefinitions(kubeconfig: string, files: readonly string[]): Promise<void> {
  if (files.length === 0) return;
  const { parseKubectlYaml, valueOf } = await import('./kubectl-yaml.ts');
  const credentials = await loadCredentials(kubeconfig);
  const client = new ApiClient(credentials);
  try {
    for (const file of files) {
      for (const document of parseKubectlYaml(readFileSync(file, 'utf8'))) {
        const body = valueOf(document) as { readonly metadata?: { readonly name?: string } } | null;
        await client.json({
          method: 'PATCH',
          path: resourcePath(DEFINITION, { name: body?.metadata?.name ?? '' }),
          query: { fieldManager: 'levelhook-start', force: true },
          contentType: 'application/apply-patch+yaml',
          body,
        });
      }
    }
  } catch (error) {
    throw new UserError(
      `The definitions ${files.map((each) => basename(each)).join(', ')} cannot be applied (${messageOf(error)}).`,
    );
  } finally {
    await credentials.close();
  }
}
