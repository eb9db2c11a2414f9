import type { KubernetesObject } from '../../../core/index.ts';
import type { Tone } from './components/panel.ts';

/** How an object does, by its own status. */
export interface Health {
  readonly tone: Tone;
  /** A few words. The object may have chosen some of them. */
  readonly text: string;
}

/** Conditions that mean trouble when they are True: Kubernetes' workloads, and the words of kstatus. */
const BAD = ['Failed', 'ReplicaFailure', 'Stalled', 'Degraded'];
/** Conditions that mean trouble when they are False. Of several in an object the first counts. */
const GOOD = ['Ready', 'Available', 'Complete', 'Established', 'Synced', 'Healthy', 'Bound'];
const PHASES: Readonly<Record<string, Tone>> = {
  Running: 'ok',
  Succeeded: 'ok',
  Active: 'ok',
  Bound: 'ok',
  Available: 'ok',
  Pending: 'warn',
  Terminating: 'warn',
  Released: 'warn',
  Unknown: 'warn',
  Lost: 'bad',
  Failed: 'bad',
};
/** Conditions that are looked at: an object may have a megabyte of them. */
const MOST_CONDITIONS = 100;
/** Characters of a word that the object chooses. */
const MOST_TEXT = 80;

/**
 * The health of an object, as `kstatus` of sigs.k8s.io/cli-utils reads it, for any kind: its deletion, its conditions,
 * its counts of replicas, its phase. Undefined when its status says nothing of the kind.
 */
export function healthOf(object: KubernetesObject): Health | undefined {
  if (object.metadata.deletionTimestamp !== undefined) return { tone: 'warn', text: 'is being deleted' };
  const { spec, status: own } = object as KubernetesObject & { readonly spec?: unknown; readonly status?: unknown };
  const status = fieldsOf(own);
  const all: readonly unknown[] = Array.isArray(status['conditions']) ? status['conditions'] : [];
  const conditions = all.slice(0, MOST_CONDITIONS).map(fieldsOf);
  const of = (type: string): Fields | undefined => conditions.find((each) => each['type'] === type);
  for (const type of BAD) {
    const found = of(type);
    if (found?.['status'] === 'True') return { tone: 'bad', text: withReason(type, found) };
  }
  const { phase } = status;
  // A pod that has ended well is not ready any more.
  if (phase === 'Succeeded') return { tone: 'ok', text: phase };
  const replicas = replicasOf(fieldsOf(spec), status);
  if (replicas) return replicas;
  for (const type of GOOD) {
    const found = of(type);
    if (found?.['status'] === 'True') return { tone: 'ok', text: type };
    if (found?.['status'] === 'False') return { tone: 'bad', text: withReason(`not ${type}`, found) };
    if (found) return { tone: 'warn', text: withReason(`${type} is unknown`, found) };
  }
  return typeof phase === 'string' ? { tone: PHASES[phase] ?? 'neutral', text: cut(phase) } : undefined;
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function replicasOf({ replicas: wanted }: Fields, status: Fields): Health | undefined {
  const { readyReplicas: ready = 0, replicas } = status;
  if (typeof wanted !== 'number' || typeof ready !== 'number' || typeof replicas !== 'number') return undefined;
  return { tone: ready >= wanted ? 'ok' : 'warn', text: `${ready} of ${wanted} ready` };
}

function withReason(text: string, { reason }: Fields): string {
  return typeof reason === 'string' && reason !== '' ? `${text}: ${cut(reason)}` : text;
}

function cut(text: string): string {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}
