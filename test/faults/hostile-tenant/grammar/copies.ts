import * as fc from 'fast-check';

/** The kinds of a victim's objects that the functions in the box read. */
export const COPIED = ['Deployment', 'ReplicaSet', 'Pod', 'Service', 'Endpoints', 'EndpointSlice', 'Lease'] as const;

/** A tenant copies one object of the victim. Each flag says whether the copy takes over that part of the object. */
export interface Copy {
  readonly do: 'copy';
  /** Which of the victim's objects, as they are at that time. */
  readonly kind: (typeof COPIED)[number];
  readonly nth: number;
  /** A pod stands for the object: it has the object's metadata, or the metadata of the object's template. */
  readonly isPod: boolean;
  readonly name: boolean;
  readonly labels: boolean;
  readonly annotations: boolean;
  readonly owner: 'of the object' | 'the object' | 'any of the object, not controlling' | 'none';
  readonly uid: boolean;
  /** A finalizer keeps it. */
  readonly held: boolean;
  readonly deleted: boolean;
  /** Of a pod: its status says that it is running and ready. */
  readonly isReady: boolean;
}

/** A change of a Deployment, as a merge patch: the same for a copy and for a victim that rolls out. */
export interface Rollout {
  readonly how: 'scale' | 'image' | 'Recreate';
  readonly replicas: number;
  readonly image: string;
}

/** One thing that a tenant does with the victim's identities. It stays in the tenant's namespace. */
export type CopyAction =
  | Copy
  /** Changes one of the copies of Deployments and ReplicaSets. */
  | ({ readonly do: 'change'; readonly nth: number } & Rollout);

/** A victim that changes nothing, or one of its Deployments, in the middle of these actions. */
export interface Round {
  readonly victim: 'rests' | (Rollout & { readonly nth: number });
  readonly actions: readonly CopyAction[];
}

/** A victim's Deployment that is recreated would wait for this copy of its ReplicaSet's pods, which never goes. */
export const WAITED_FOR: Omit<Copy, 'nth'> = {
  do: 'copy',
  kind: 'ReplicaSet',
  isPod: true,
  name: false,
  labels: false,
  annotations: false,
  owner: 'the object',
  uid: false,
  held: true,
  deleted: true,
  isReady: false,
};

/** A ready pod that is one too many for the ReplicaSet of the victim which it names as its owner. */
export const SURPLUS: Omit<Copy, 'nth'> = { ...WAITED_FOR, held: false, deleted: false, isReady: true };

/** Rounds of this many actions: one without a change of the victim, and one with each change, in any order. */
export function rounds(actions: number): fc.Arbitrary<Round[]> {
  const kinds = ['rests', 'scale', 'image', 'Recreate'] as const;
  const victim = (how: (typeof kinds)[number]): fc.Arbitrary<Round['victim']> =>
    how === 'rests' ? fc.constant(how) : rollout(how).chain((each) => fc.nat().map((nth) => ({ ...each, nth })));
  return fc
    .shuffledSubarray([...kinds], { minLength: kinds.length })
    .chain((all) => fc.tuple(...all.map((how) => round(victim(how), actions))));
}

function round(victim: fc.Arbitrary<Round['victim']>, actions: number): fc.Arbitrary<Round> {
  return fc.record({ victim, actions: fc.array(copying(), { minLength: actions, maxLength: actions }) });
}

/**
 * Copies of a victim's objects, and changes of these copies. `action` has none of them, because they hold the names by
 * which its campaign recognizes a leak.
 */
export function copying(): fc.Arbitrary<CopyAction> {
  return fc.oneof({ weight: 5, arbitrary: copy() }, { weight: 1, arbitrary: changing() });
}

function copy(): fc.Arbitrary<Copy> {
  return fc.record({
    do: fc.constant('copy'),
    kind: fc.constantFrom(...COPIED),
    nth: fc.nat(),
    isPod: fc.boolean(),
    name: fc.boolean(),
    labels: fc.boolean(),
    annotations: fc.boolean(),
    owner: fc.constantFrom('of the object', 'the object', 'any of the object, not controlling', 'none'),
    uid: fc.boolean(),
    held: fc.boolean(),
    deleted: fc.boolean(),
    isReady: fc.boolean(),
  });
}

function changing(): fc.Arbitrary<CopyAction> {
  return fc
    .constantFrom('scale', 'image', 'Recreate')
    .chain(rollout)
    .chain((each) => fc.nat().map((nth): CopyAction => ({ do: 'change', nth, ...each })));
}

function rollout(how: Rollout['how']): fc.Arbitrary<Rollout> {
  return fc.record({ how: fc.constant(how), replicas: fc.nat(5), image: fc.nat(999).map((at) => `pause:${at}`) });
}

/** The merge patch. A ReplicaSet has no strategy, so that its change to Recreate is one of its image alone. */
export function patchOf({ how, replicas, image }: Rollout, kind: string): object {
  if (how === 'scale') return { spec: { replicas } };
  const strategy = how === 'Recreate' && kind === 'Deployment' ? { type: 'Recreate', rollingUpdate: null } : undefined;
  return { spec: { template: { spec: { containers: [{ name: 'main', image }] } }, strategy } };
}
