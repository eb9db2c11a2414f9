import { resource } from '../../core/index.ts';

/** The fields of a Lease that are used. Times are RFC 3339 with microseconds. */
export interface LeaseSpec {
  /** Empty or absent: no process holds the Lease. */
  readonly holderIdentity?: string | undefined;
  readonly leaseDurationSeconds?: number | undefined;
  readonly acquireTime?: string | undefined;
  readonly renewTime?: string | undefined;
  readonly leaseTransitions?: number | undefined;
}

/** A `coordination.k8s.io/v1` Lease as it is read and written. */
export interface Lease {
  readonly metadata: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: LeaseSpec;
}

export const LEASE = resource('coordination.k8s.io/v1', 'Lease');

/** The form of a Lease's times. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}
