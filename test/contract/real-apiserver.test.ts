import { afterAll, beforeAll, inject } from 'vitest';
import { resource } from '../../src/core/index.ts';
import { RealApiserver } from '../../src/testing/index.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import type { Site } from './apiserver/fixture.ts';
import { apiserverContract } from './apiserver-contract.ts';

const namespace = uniqueName('contract');
const group = `${uniqueName('sites')}.example.com`;
const Site = resource<Site>(`${group}/v1`, 'Site');
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const apiserver = new RealApiserver(inject('kubeconfig'));
const started = new Started();

beforeAll(async () => {
  const cluster = await started.cluster(inject('kubeconfig'), namespace);
  const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  const subresources = {
    status: {},
    scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
  };
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec: anything, status: anything } } };
  const name = `sites.${group}`;
  await cluster.create(definitions, {
    metadata: { name },
    spec: {
      group,
      names: { kind: 'Site', plural: 'sites' },
      scope: 'Namespaced',
      versions: [{ name: 'v1', served: true, storage: true, schema, subresources }],
    },
  });
  started.add(() => cluster.delete(definitions, { name }));
  await eventually(() => cluster.list(Site, namespace));
});

afterAll(() => started.stop());

apiserverContract('RealApiserver', () => ({ apiserver, namespace, Site }));
