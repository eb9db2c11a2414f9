import {
  formatKind,
  groupOf,
  orUndefined,
  type Resource,
  resource as resourceOf,
  resourcePath,
  versionOf,
} from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { CACHE_VERBS, missingRight, type NeededRight } from '../../ground/apiserver/missing-right.ts';
import type { LeaseKey } from '../../ground/config/lease.ts';
import type { NamespacedName } from '../../ground/config/webhook-certificates.ts';
import type { Diagnoses, Level } from './diagnosis.ts';

/** The verbs that the gateway uses on one resource. */
export interface Right extends NeededRight {
  readonly verbs: readonly string[];
  readonly version?: string;
  /** The level of the finding when the right is missing. */
  readonly level: Exclude<Level, 'ok'>;
}

/** A kind that controllers read, as the gateway lists it. */
export interface CachedKind {
  readonly resource: Resource;
  /** Undefined: all namespaces, or a cluster-scoped kind. */
  readonly namespaces: readonly string[] | undefined;
}

export interface NeededFor {
  /** Whether the settings name the cluster. */
  readonly clusterNamed: boolean;
  /** The Lease of `DispatchLease`. */
  readonly lease: NamespacedName;
  /** The Lease for leader election; undefined without election. */
  readonly election?: LeaseKey | undefined;
  /** Whether the gateway runs ReconcileFunctions. */
  readonly reconcileFunctions: boolean;
  /** The Secret in which the gateway keeps the certificate of its webhooks; undefined when it makes none. */
  readonly webhookSecret?: NamespacedName | undefined;
  /** Whether the gateway asks for a login: its names are not those of loopback alone, or a setting says so. */
  readonly login: boolean;
  readonly kinds: readonly CachedKind[];
}

/** All rights that the gateway uses. `infra/rbac/gateway.yaml` grants the ones that do not depend on functions. */
export function neededRights(needed: NeededFor): Right[] {
  const { clusterNamed, lease, election, reconcileFunctions, webhookSecret, login, kinds } = needed;
  const rights: Right[] = [];
  const add = (right: Omit<Right, 'level'> & { level?: Right['level'] }): void => {
    rights.push({ level: 'problem', ...right });
  };
  if (!clusterNamed) {
    add({ group: '', resource: 'namespaces', name: 'kube-system', verbs: ['get'], purpose: 'to name the cluster' });
  }
  add({
    group: 'coordination.k8s.io',
    resource: 'leases',
    ...lease,
    verbs: ['get', 'create', 'update', 'delete'],
    purpose: 'to know which runs may be in flight, without which it waits on a new Redis',
    level: 'warning',
  });
  if (election) {
    add({
      group: 'coordination.k8s.io',
      resource: 'leases',
      ...election,
      verbs: ['get', 'watch', 'create', 'update'],
      purpose: 'to elect one leader among gateways',
    });
  }
  if (reconcileFunctions) {
    const group = 'levelhook.dev';
    const named = 'for what ReconcileFunctions name';
    add({ group, resource: 'reconcilefunctions', verbs: ['get', 'list', 'watch'], purpose: 'to run them' });
    add({ group, resource: 'reconcilefunctions/status', verbs: ['patch'], purpose: 'to say how they are' });
    add({
      group: 'authorization.k8s.io',
      resource: 'subjectaccessreviews',
      verbs: ['create'],
      purpose: 'to ask what functions may read',
    });
    for (const each of ['services', 'serviceaccounts']) {
      add({ group: '', resource: each, verbs: ['get'], purpose: named });
    }
    const leads = 'to see that the endpoint of a function leads to pods of its namespace alone';
    for (const each of ['pods', 'services']) add({ group: '', resource: each, verbs: ['list'], purpose: leads });
    add({ group: 'discovery.k8s.io', resource: 'endpointslices', verbs: ['list'], purpose: leads });
    add({
      group: 'authentication.k8s.io',
      resource: 'selfsubjectreviews',
      verbs: ['impersonate-on:serviceaccount:create'],
      purpose: 'for credentials: proxy with constrained impersonation',
      level: 'warning',
    });
    const withdrawn = { verbs: ['list', 'watch'], level: 'warning' } as const;
    const purpose = 'to notice at once that a right of a function was taken away';
    add({ group: '', resource: 'serviceaccounts', ...withdrawn, purpose });
    for (const each of ['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings']) {
      add({ group: 'rbac.authorization.k8s.io', resource: each, ...withdrawn, purpose });
    }
    const events = { group: 'events.k8s.io', resource: 'events', verbs: ['create'] };
    add({ ...events, purpose: 'to report on ReconcileFunctions', level: 'warning' });
  }
  if (webhookSecret) {
    const { namespace, name } = webhookSecret;
    const purpose = 'to make the certificate of its webhooks (infra/rbac/webhooks.yaml)';
    const verbs = ['list', 'watch', 'patch'];
    for (const resource of ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations']) {
      add({ group: 'admissionregistration.k8s.io', resource, verbs, purpose });
    }
    add({ group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions', verbs, purpose });
    add({ group: '', resource: 'secrets', namespace, name, verbs: ['get', 'watch', 'update'], purpose });
    add({ group: '', resource: 'secrets', namespace, verbs: ['create'], purpose });
  }
  if (login) {
    // Only logins through Kubernetes need these rights; static tokens do not.
    const purpose = 'to check who asks for the dashboard and the queues (ClusterRole system:auth-delegator)';
    const review = { verbs: ['create'], purpose, level: 'warning' } as const;
    add({ group: 'authentication.k8s.io', resource: 'tokenreviews', ...review });
    add({ group: 'authorization.k8s.io', resource: 'subjectaccessreviews', ...review });
  }
  for (const { resource, namespaces } of kinds) {
    for (const namespace of namespaces ?? [undefined]) {
      add({
        group: groupOf(resource),
        version: versionOf(resource),
        resource: resource.plural,
        ...(namespace === undefined ? {} : { namespace }),
        verbs: CACHE_VERBS,
        purpose: `to cache ${formatKind(resource)}`,
      });
    }
  }
  return rights;
}

const REVIEW = resourceOf('authorization.k8s.io/v1', 'SelfSubjectAccessReview', { namespaced: false });
const SELF = resourceOf('authentication.k8s.io/v1', 'SelfSubjectReview', { namespaced: false });

/** Asks the apiserver about each right, which stores nothing. */
export async function checkRights(
  findings: Diagnoses,
  client: Pick<ApiClient, 'json'>,
  rights: readonly Right[],
): Promise<void> {
  const user = await userName(client);
  let missing = 0;
  for (const right of rights) {
    const answers = await Promise.all(right.verbs.map((verb) => isAllowed(client, right, verb)));
    const denied = right.verbs.filter((_, at) => !answers[at]);
    if (denied.length === 0) continue;
    missing += 1;
    findings.add(right.level, missingRight(user, right, denied));
  }
  if (missing === 0) findings.ok(`${user} has all ${rights.length} rights that the gateway needs`);
}

/** The user who has the rights: the kubeconfig may belong to a person instead of the gateway. */
async function userName(client: Pick<ApiClient, 'json'>): Promise<string> {
  const { apiVersion, kind } = SELF;
  // Kubernetes has this review since 1.28.
  const review = await orUndefined(
    client.json<{ status?: { userInfo?: { username?: string } } }>({
      method: 'POST',
      path: resourcePath(SELF),
      body: { apiVersion, kind },
    }),
  );
  return review?.status?.userInfo?.username ?? 'the user of the kubeconfig';
}

async function isAllowed(client: Pick<ApiClient, 'json'>, right: Right, verb: string): Promise<boolean> {
  const { group, version, namespace, name } = right;
  const [resource, subresource] = right.resource.split('/');
  const { apiVersion, kind } = REVIEW;
  const resourceAttributes = { verb, group, version, resource, subresource, namespace, name };
  const review = await client.json<{ status?: { allowed?: boolean } }>({
    method: 'POST',
    path: resourcePath(REVIEW),
    // Undefined fields are left out.
    body: { apiVersion, kind, spec: { resourceAttributes } },
  });
  return review.status?.allowed === true;
}
