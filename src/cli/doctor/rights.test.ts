import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { describe, expect, it } from 'vitest';
import { resource } from '../../core/index.ts';
import { missingRight } from '../../ground/apiserver/missing-right.ts';
import { neededRights, type Right } from './rights.ts';

const kinds = [
  { resource: resource('v1', 'Namespace', { namespaced: false }), namespaces: undefined },
  { resource: resource('v1', 'Pod'), namespaces: undefined },
  { resource: resource('v1', 'Service'), namespaces: undefined },
  { resource: resource('v1', 'Endpoints', { plural: 'endpoints' }), namespaces: undefined },
  { resource: resource('v1', 'Node'), namespaces: undefined },
  { resource: resource('discovery.k8s.io/v1', 'EndpointSlice'), namespaces: undefined },
  { resource: resource('apps/v1', 'Deployment'), namespaces: undefined },
  { resource: resource('apps/v1', 'ReplicaSet'), namespaces: undefined },
  { resource: resource('v1', 'Namespace'), namespaces: undefined },
  { resource: resource('v1', 'Node'), namespaces: undefined },
  { resource: resource('coordination.k8s.io/v1', 'Lease'), namespaces: undefined },
];
const all = neededRights({
  clusterNamed: false,
  lease: { namespace: 'kube-system', name: 'levelhook-dispatch' },
  election: { namespace: 'levelhook', name: 'levelhook' },
  reconcileFunctions: true,
  webhookSecret: { namespace: 'levelhook', name: 'levelhook-webhooks' },
  login: true,
  kinds,
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

interface Document {
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly name: string };
}

/** The rules of this role in every cluster: plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes. */
const AUTH_DELEGATOR: readonly Rule[] = [
  { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
  { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
];

function textsOf({ group, resource: name, name: object, verbs }: Right): string[] {
  return verbs.map((verb) => `${verb} ${name}.${group} ${object ?? '*'}`);
}

describe('the rights that the doctor asks for', () => {
  it('are those that infra/rbac grants', () => {
    const documents = ['gateway', 'webhooks'].flatMap((name) => {
      const text = readFileSync(new URL(`../../../infra/rbac/${name}.yaml`, import.meta.url), 'utf8');
      return parseAllDocuments(text).map((each) => each.toJS() as Document);
    });
    const granted = documents
      .flatMap(({ rules = [], roleRef }) => (roleRef?.name === 'system:auth-delegator' ? AUTH_DELEGATOR : rules))
      .flatMap(({ apiGroups, resources, resourceNames = ['*'], verbs }) =>
        apiGroups.flatMap((group) =>
          resources.flatMap((name) =>
            resourceNames.flatMap((object) => verbs.map((verb) => `${verb} ${name}.${group} ${object}`)),
          ),
        ),
      );
    expect(new Set(all.flatMap(textsOf))).toEqual(new Set(granted));
  });

  it('are fewer without ReconcileFunctions and with a named cluster', () => {
    const lease = { namespace: 'kube-system', name: 'x' };
    const rights = neededRights({ clusterNamed: true, lease, reconcileFunctions: false, login: false, kinds: [] });
    expect(rights.map(({ resource: name }) => name)).toEqual(['leases']);
  });

  it('are asked for in each namespace that is cached', () => {
    const lease = { namespace: 'kube-system', name: 'x' };
    const [, pods] = kinds.map((kind) => ({ ...kind, namespaces: ['a', 'b'] }));
    const rights = neededRights({
      clusterNamed: true,
      lease,
      reconcileFunctions: false,
      login: false,
      kinds: pods ? [pods] : [],
    });
    expect(rights.slice(1).map(({ namespace }) => namespace)).toEqual(['a', 'b']);
  });
});

it('a missing right is named with what it is needed for', () => {
  const [right] = neededRights({
    clusterNamed: true,
    lease: { namespace: 'kube-system', name: 'x' },
    reconcileFunctions: false,
    login: false,
    kinds: [],
  });
  expect(missingRight('ann', right as Right, ['get'])).toBe(
    'ann may not get leases.coordination.k8s.io x in the namespace kube-system, which the gateway needs to know which runs may be in flight, without which it waits on a new Redis: grant it',
  );
});
