// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';

/** Lease defines a lease concept. */
export interface Lease extends KubernetesObject {
  /** spec contains the specification of the Lease. */
  spec?: LeaseSpec;
}
export const Lease: Resource<Lease> = /* @__PURE__ */ resource<Lease>('coordination.k8s.io/v1', 'Lease');

/** LeaseSpec is a specification of a Lease. */
export interface LeaseSpec {
  /** acquireTime is a time when the current lease was acquired. */
  acquireTime?: string;
  /** holderIdentity contains the identity of the holder of a current lease. */
  holderIdentity?: string;
  /** leaseDurationSeconds is a duration that candidates for a lease need to wait to force acquire it. */
  leaseDurationSeconds?: number;
  /** leaseTransitions is the number of transitions of a lease between holders. */
  leaseTransitions?: number;
  /** PreferredHolder signals to a lease holder that the lease has a more optimal holder and should be given up. */
  preferredHolder?: string;
  /** renewTime is a time when the current holder of a lease has last updated the lease. */
  renewTime?: string;
  /** Strategy indicates the strategy for picking the leader for coordinated leader election. */
  strategy?: string;
}
