import type { Clock, Condition, KubernetesObject } from '../../../core/index.ts';
import type { Description, Reason, WebhookDescription } from '../../../contract/index.ts';
import type { ControllerNotes } from '../../controller/running/controller-state.ts';
import type { KeySelection } from '../../controller/running/requeue.ts';
import type { SeenReviews } from '../../controller/dispatch/review-sender.ts';
import type { HealthCheck } from '../../process/health.ts';
import type { ReadingTimes } from '../cache-api/reading-time.ts';
import type { Health } from './health.ts';
import type { KeySearch } from './key-search.ts';
import type { Visitor } from '../login/visitor.ts';
import type { ListedReplica, ReplicaRole } from '../../election/replica-record.ts';
import type { BullMqJobs } from '../../controller/workqueue/worker/bullmq-jobs.ts';
import type { DeadLetterQueue } from '../../controller/workqueue/records/dead-letters.ts';
import type { RightsReview } from '../../registration/rights-review.ts';
import type { ReplayRecords } from '../../controller/workqueue/records/replay-records.ts';
import type {
  KeyList,
  KeyStatus,
  PauseSummary,
  Sample,
  QueueHistory,
  WorkQueue,
} from '../../controller/workqueue/work-queue.ts';

/** Everything that the pages show and change. The server implements it from the parts of the gateway. */
export interface DashboardData {
  readonly clock: Pick<Clock, 'now' | 'wallNow'>;
  /** Each visitor's time of the thread. */
  readonly times: Pick<ReadingTimes, 'ofVisitor'>;
  /** The page that shows the trace of a trigger. @param reconcileId its UUID. @returns undefined: it has none. */
  traceUrl(reconcileId: string): string | undefined;
  /** Why queues and views cannot be asked now, such as Redis being away; undefined when they can. */
  unavailable(): string | undefined;
  /** The checks of `/readyz`. */
  readonly checks: ReadonlyMap<string, HealthCheck>;
  gateway(): GatewaySummary;
  /** All gateways of the deployment, this one among them. */
  replicas(): Promise<readonly ListedReplica[]>;
  /** Replays of many dead letters, of all gateways; undefined while the gateway is starting. */
  replays(): Pick<ReplayRecords, 'begin' | 'report' | 'recent'> | undefined;
  /** Of each controller that runs or is being started, by name. */
  controllers(): Promise<readonly ControllerSummary[]>;
  /** The functions that this gateway knows, also those whose controllers do not run. */
  functions(): readonly FunctionSummary[];
  views(): Promise<readonly ViewSummary[]>;
  /** One controller; undefined when there is none of this name. */
  controller(id: string): ControllerAccess | undefined;
  /** The queues of all controllers by the name of the controller. */
  queues(): ReadonlyMap<string, ShownQueue>;
  /** One view by its name; undefined when there is none. */
  view(name: string): ViewAccess | undefined;
  /**
   * Cached objects that the visitor may read, by a part of their name, by `NAMESPACE/NAME`, by labels, or by UID.
   * @throws SelectorError; LoginUnavailableError
   */
  search(visitor: ObjectVisitor, text: string): Promise<ObjectsFound>;
  /** What the change that gave this reason has made of its object. @throws LoginUnavailableError */
  change(visitor: ObjectVisitor, reason: ChangeReason): Promise<Shown<ObjectChange>>;
}

/** A reason that names a version of an object. */
export type ChangeReason = Required<Pick<Reason, 'type' | 'object' | 'resourceVersion'>>;

/** An object before and after one change, without the fields that the cache leaves out. */
export interface ObjectChange {
  /** Undefined: the change has created it. */
  readonly before: KubernetesObject | undefined;
  /** Undefined: the change has deleted it. */
  readonly after: KubernetesObject | undefined;
  /** Who has made the change, by field manager: several where that is not certain. Empty for a deletion. */
  readonly managers: readonly string[];
}

/** An object in a view, and the controllers that reconcile its kind in its namespace. */
export interface FoundObject {
  readonly view: string;
  readonly key: string;
  readonly controllers: readonly string[];
}

export interface ObjectsFound {
  readonly objects: readonly FoundObject[];
  /** Whether all objects were looked at. */
  readonly isWhole: boolean;
}

/** The operations of a queue that the pages need. */
export type ShownQueue = DeadLetterQueue &
  Pick<WorkQueue, 'pause' | 'resume'> & {
    readonly history: Omit<QueueHistory, 'samples'>;
    readonly jobs: Pick<BullMqJobs, 'lists'>;
  };

/** This gateway among its replicas. */
export interface GatewaySummary {
  readonly role: ReplicaRole;
  /** How the Lease calls this gateway; undefined without an election. */
  readonly identity: string | undefined;
  /** How the Lease calls the gateway that leads; empty when it is not known. */
  readonly leader: string;
}

export interface ControllerSummary extends PauseSummary, ControllerNotes {
  readonly id: string;
  /** Where it is declared: in the settings of the gateway, or in a ReconcileFunction. */
  readonly origin: 'configured' | 'declared';
  /** `apps/v1/ReplicaSet`. */
  readonly kind: string;
  readonly sizes: Readonly<Record<KeyList, number>>;
  /** Keys that may run at a time, over all gateways. */
  readonly concurrency: number;
  /**
   * For how long the oldest key has been due or has been failing, in milliseconds. Undefined when no key is due and
   * none fails.
   */
  readonly oldestMs: number | undefined;
  /** The last hour in intervals, the oldest first. May be half a minute old. */
  readonly samples: readonly Sample[];
}

/** The last answer of a function to this gateway. */
export interface AnswerSummary {
  readonly atMs: number;
  readonly text: string;
  readonly isFailure: boolean;
}

export interface FunctionSummary {
  /** The name of its controller, or of the ReconcileFunction; undefined until the function has described itself. */
  readonly controller: string | undefined;
  /** Where triggers are sent. */
  readonly url: string | undefined;
  /** Why its controller does not run, or not as declared. */
  readonly problem: string | undefined;
  /** Why no triggers are sent to it at present. */
  readonly openReason: string | undefined;
  readonly lastAnswer: AnswerSummary | undefined;
  /** See `ControllerAccess.rights`. */
  readonly rights: RightsReview | undefined;
}

export interface ViewSummary {
  /** The kind, and the namespace of a view that holds one: names the view. */
  readonly name: string;
  readonly objects: number;
  /** Whether its first list is complete. */
  readonly synced: boolean;
  readonly encrypted: boolean;
  /**
   * For how long the view may lack a change of the server, whichever gateway fills it; while that is no longer than it
   * is for a resource at rest: how long the oldest event waits that this gateway has read. Undefined while the view is
   * not complete, or the server does not serve the resource.
   */
  readonly behindMs: number | undefined;
  /** The last complete list of the server, by any gateway. */
  readonly lastList: { readonly atMs: number; readonly reason: string } | undefined;
  readonly version: string | undefined;
  /** The controllers that read it. */
  readonly users: readonly string[];
}

/** A webhook, and the reviews of it that this gateway has seen. */
export interface WebhookSummary {
  readonly webhook: WebhookDescription;
  /** Undefined: it had no review yet. */
  readonly seen: SeenReviews | undefined;
}

export interface ControllerAccess {
  readonly origin: ControllerSummary['origin'];
  readonly description: Description;
  readonly url: string;
  readonly queue: ShownQueue;
  summary(): Promise<ControllerSummary>;
  /** The part of the cache that its function may read, by kind: the namespaces, or `*` for all. */
  readonly scope: Readonly<Record<string, '*' | readonly string[]>>;
  /**
   * The last review of the rights of its ServiceAccount, by this gateway; undefined before the first one, and for a
   * configured function, whose rights are those of the gateway.
   */
  rights(): RightsReview | undefined;
  webhooks(): readonly WebhookSummary[];
  /** The conditions of its ReconcileFunction; empty for a configured function. */
  conditions(): readonly Condition[];
  /** Whether keys of its kind have a namespace. */
  readonly namespaced: boolean;
  /** The views of the kind that it reconciles. */
  readonly views: readonly string[];
  /**
   * Keys of cached objects of its kind in its namespaces, behind `after` in the order of their names, at most `limit`,
   * of 20,000 that are looked at. The names of objects are shown to those who may read them.
   * @throws LoginUnavailableError
   */
  keys(
    visitor: ObjectVisitor,
    search: KeySearch,
    page: { readonly after: string; readonly limit: number },
  ): Promise<Shown<KeysFound>>;
  /** See `RunningController.requeue`. @throws UserError for a selection that is none of the controller's. */
  requeue(which: KeySelection, priority: 'high' | 'low'): Promise<number>;
  /** All that is known of a key, with its object. */
  status(visitor: ObjectVisitor, key: string): Promise<KeyStatus>;
  /** The object of a key, in the cache and on the server. @throws LoginUnavailableError */
  object(visitor: ObjectVisitor, key: string): Promise<ObjectStates>;
  /**
   * The objects, Events and controllers around the object of a key; undefined when the cache does not have it.
   * @throws LoginUnavailableError
   */
  around(visitor: ObjectVisitor, key: string): Promise<Surroundings | undefined>;
}

export interface KeysFound {
  readonly keys: readonly string[];
  /** How many were looked at. */
  readonly looked: number;
  /** The key behind which the next page begins; undefined at the end. */
  readonly next: string | undefined;
}

/** An object and its place among others. */
export interface TreeObject {
  /** `apps/v1/ReplicaSet`. */
  readonly kind: string;
  readonly key: string;
  /** The view that has it; undefined when it is not shown. */
  readonly view: string | undefined;
  /** Undefined when it is not shown, or its status says nothing of it. */
  readonly health: Health | undefined;
  /** Why it is not shown. */
  readonly note: string | undefined;
  /** The controllers that reconcile it, the one whose page is shown first. */
  readonly controllers: readonly string[];
  /** The objects that it controls. */
  readonly children: readonly TreeObject[];
}

export interface ObjectTree {
  /** Its owners, the topmost first. */
  readonly owners: readonly TreeObject[];
  readonly children: readonly TreeObject[];
  /** Children that are too many for a page. */
  readonly notShown: number;
  /** There are too many objects to look for all children. */
  readonly isCut: boolean;
}

/** A controller that looks at an object. */
export interface ControllerLook {
  readonly id: string;
  readonly roles: readonly ('reconciles' | 'owns' | 'watches' | 'reads')[];
  /** Of the object's key, if it reconciles the object. */
  readonly status: KeyStatus | undefined;
}

/** An Event of an object. Others have chosen its texts. */
export interface ShownEvent {
  readonly isWarning: boolean;
  readonly reason: string;
  readonly message: string;
  /** How often it happened. */
  readonly count: number;
  /** When it happened last, as Kubernetes writes it. */
  readonly at: string | undefined;
  readonly from: string | undefined;
}

export interface Surroundings {
  readonly tree: ObjectTree;
  readonly events: Shown<{ readonly events: readonly ShownEvent[] }>;
  /** The other controllers that look at it. */
  readonly controllers: readonly ControllerLook[];
}

/** Who looks at objects: each read asks whether this visitor may read them in the cluster. */
export type ObjectVisitor = Pick<Visitor, 'client' | 'readRefusal'>;

/** Content for a visitor, or the reason why it is hidden. */
export type Shown<T> = { readonly kind: 'hidden'; readonly reason: string } | ({ readonly kind: 'shown' } & T);

/** One object as the cache has it and as the server has it. */
export type ObjectStates = Shown<{
  /** Undefined when it is not there. */
  readonly cached: KubernetesObject | undefined;
  readonly server: KubernetesObject | undefined;
  /** Why the server's is not known. */
  readonly serverError: string | undefined;
}>;

/** Some objects of a view, and the key behind which the next ones are; undefined when there are no more. */
export interface ObjectPage {
  readonly objects: readonly KubernetesObject[];
  readonly next: string | undefined;
}

/** Which objects of a view. */
export interface ObjectSelection {
  readonly namespace?: string;
  /** As in `kubectl -l`. */
  readonly labels?: string;
}

export interface ViewAccess {
  readonly name: string;
  readonly namespaced: boolean;
  /**
   * Selected objects behind `after`, in the order of their keys, at most `limit`.
   * @throws SelectorError; LoginUnavailableError
   */
  list(
    visitor: ObjectVisitor,
    selection: ObjectSelection,
    page: { readonly after: string; readonly limit: number },
  ): Promise<Shown<ObjectPage>>;
  /** @throws LoginUnavailableError */
  get(visitor: ObjectVisitor, key: string): Promise<Shown<{ readonly object: KubernetesObject | undefined }>>;
}
