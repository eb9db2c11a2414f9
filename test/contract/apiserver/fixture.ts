import { expect } from 'vitest';
import type { KubernetesObject, ObjectKey, Resource } from '../../../src/core/index.ts';
import { ApiWriter, type NewObject } from '../../../src/function/index.ts';
import { ConfigMap, type Deployment } from '../../../src/function/kinds/index.ts';
import type { TestApiserver } from '../../../src/testing/index.ts';
import { uniqueName } from '../../harness/levelhook.ts';

/** A custom kind with status and scale subresources, whose fields are not declared. */
export interface Site extends KubernetesObject {
  spec?: { replicas?: number; title?: string; list?: readonly object[] };
  status?: Record<string, unknown>;
}

export interface ApiserverWorld {
  readonly apiserver: TestApiserver;
  /** Exists. */
  readonly namespace: string;
  readonly Site: Resource<Site>;
}

/** What the tests of an apiserver have in common: writers, keys and objects. */
export type ApiserverFixture = ReturnType<typeof apiserverFixture>;

export function apiserverFixture(world: () => ApiserverWorld) {
  const api = () =>
    new ApiWriter(world().apiserver.transport, {
      signal: new AbortController().signal,
      deadlineMs: Date.now() + 30_000,
    });
  const key = (stem: string): ObjectKey & { namespace: string } => ({
    namespace: world().namespace,
    name: uniqueName(stem),
  });
  const code = (of: number) => expect.objectContaining({ code: of });
  const configMap = (more: Partial<KubernetesObject['metadata']> = {}, data: Record<string, string> = { a: '1' }) =>
    api().create(ConfigMap, { metadata: { ...key('map'), ...more }, data });
  const deployment = (at: ObjectKey): NewObject<Deployment> => ({
    metadata: { ...at, labels: { app: at.name } },
    spec: {
      replicas: 1,
      // Its own: a Deployment adopts what matches.
      selector: { matchLabels: { app: at.name } },
      template: {
        metadata: { labels: { app: at.name } },
        spec: {
          containers: [
            { name: 'main', image: 'main:1', env: [{ name: 'A', value: '1' }] },
            { name: 'side', image: 'side:1' },
          ],
        },
      },
    },
  });
  const site = (spec: Site['spec'] = { title: 'x' }) => api().create(Site(), { metadata: key('site'), spec });
  const Site = () => world().Site;
  return { world, api, key, code, configMap, deployment, site, Site };
}
