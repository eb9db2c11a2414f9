// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';

/** APIService represents a server for a particular GroupVersion. */
export interface APIService extends KubernetesObject {
  /** Spec contains information for locating and communicating with a server. */
  spec?: APIServiceSpec;
  /** Status contains derived information about an API server. */
  status?: APIServiceStatus;
}
export const APIService: Resource<APIService> = /* @__PURE__ */ resource<APIService>(
  'apiregistration.k8s.io/v1',
  'APIService',
  { namespaced: false },
);

/** APIServiceCondition describes the state of an APIService at a particular point. */
export interface APIServiceCondition {
  /** Last time the condition transitioned from one status to another. */
  lastTransitionTime?: string;
  /** Human-readable message indicating details about last transition. */
  message?: string;
  /** Unique, one-word, CamelCase reason for the condition's last transition. */
  reason?: string;
  /** Status is the status of the condition. */
  status: string;
  /** Type is the type of the condition. */
  type: string;
}

/** APIServiceSpec contains information for locating and communicating with a server. */
export interface APIServiceSpec {
  /** CABundle is a PEM encoded CA bundle which will be used to validate an API server's serving certificate. */
  caBundle?: string;
  /** Group is the API group name this server hosts. */
  group?: string;
  /** GroupPriorityMinimum is the priority this group should have at least. */
  groupPriorityMinimum: number;
  /** InsecureSkipTLSVerify disables TLS certificate verification when communicating with this server. */
  insecureSkipTLSVerify?: boolean;
  /** Service is a reference to the service for this API server. */
  service?: ServiceReference;
  /** Version is the API version this server hosts. */
  version?: string;
  /** VersionPriority controls the ordering of this API version inside of its group. */
  versionPriority: number;
}

/** APIServiceStatus contains derived information about an API server. */
export interface APIServiceStatus {
  /** Current service state of apiService. */
  conditions?: APIServiceCondition[];
}

/** ServiceReference holds a reference to Service.legacy.k8s.io. */
export interface ServiceReference {
  /** Name is the name of the service. */
  name?: string;
  /** Namespace is the namespace of the service. */
  namespace?: string;
  /** If specified, the port on the service that hosting webhook. */
  port?: number;
}
