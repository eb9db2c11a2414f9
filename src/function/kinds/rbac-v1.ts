// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';
import type { LabelSelector } from './meta-v1.ts';

/** AggregationRule describes how to locate ClusterRoles to aggregate into the ClusterRole. */
export interface AggregationRule {
  /** ClusterRoleSelectors holds a list of selectors which will be used to find ClusterRoles and create the rules. */
  clusterRoleSelectors?: LabelSelector[];
}

/** ClusterRole is a cluster level, logical grouping of PolicyRules that can be referenced as a unit by a RoleBinding or ClusterRoleBinding. */
export interface ClusterRole extends KubernetesObject {
  /** AggregationRule is an optional field that describes how to build the Rules for this ClusterRole. */
  aggregationRule?: AggregationRule;
  /** Rules holds all the PolicyRules for this ClusterRole. */
  rules?: PolicyRule[];
}
export const ClusterRole: Resource<ClusterRole> = /* @__PURE__ */ resource<ClusterRole>(
  'rbac.authorization.k8s.io/v1',
  'ClusterRole',
  { namespaced: false },
);

/** ClusterRoleBinding references a ClusterRole, but not contain it. */
export interface ClusterRoleBinding extends KubernetesObject {
  /** RoleRef can only reference a ClusterRole in the global namespace. */
  roleRef: RoleRef;
  /** Subjects holds references to the objects the role applies to. */
  subjects?: Subject[];
}
export const ClusterRoleBinding: Resource<ClusterRoleBinding> = /* @__PURE__ */ resource<ClusterRoleBinding>(
  'rbac.authorization.k8s.io/v1',
  'ClusterRoleBinding',
  { namespaced: false },
);

/** PolicyRule holds information that describes a policy rule, but does not contain information about who the rule applies to or which namespace the rule applies to. */
export interface PolicyRule {
  /** APIGroups is the name of the APIGroup that contains the resources. */
  apiGroups?: string[];
  /** NonResourceURLs is a set of partial urls that a user should have access to. */
  nonResourceURLs?: string[];
  /** ResourceNames is an optional white list of names that the rule applies to. */
  resourceNames?: string[];
  /** Resources is a list of resources this rule applies to. */
  resources?: string[];
  /** Verbs is a list of Verbs that apply to ALL the ResourceKinds contained in this rule. */
  verbs: string[];
}

/** Role is a namespaced, logical grouping of PolicyRules that can be referenced as a unit by a RoleBinding. */
export interface Role extends KubernetesObject {
  /** Rules holds all the PolicyRules for this Role. */
  rules?: PolicyRule[];
}
export const Role: Resource<Role> = /* @__PURE__ */ resource<Role>('rbac.authorization.k8s.io/v1', 'Role');

/** RoleBinding references a role, but does not contain it. */
export interface RoleBinding extends KubernetesObject {
  /** RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. */
  roleRef: RoleRef;
  /** Subjects holds references to the objects the role applies to. */
  subjects?: Subject[];
}
export const RoleBinding: Resource<RoleBinding> = /* @__PURE__ */ resource<RoleBinding>(
  'rbac.authorization.k8s.io/v1',
  'RoleBinding',
);

/** RoleRef contains information that points to the role being used. */
export interface RoleRef {
  /** APIGroup is the group for the resource being referenced. */
  apiGroup?: string;
  /** Kind is the type of resource being referenced. */
  kind: string;
  /** Name is the name of resource being referenced. */
  name: string;
}

/** Subject contains a reference to the object or user identities a role binding applies to. */
export interface Subject {
  /** APIGroup holds the API group of the referenced subject. */
  apiGroup?: string;
  /** Kind of object being referenced. */
  kind: string;
  /** Name of the object being referenced. */
  name: string;
  /** Namespace of the referenced object. */
  namespace?: string;
}
