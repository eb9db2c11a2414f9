import type { Bulk, BulkObject } from './bulk.ts';
import type { BehaviourName } from './hostile-function.ts';

/** The kinds that a tenant writes, by their plural: those of its own group are `things`. */
export const WRITTEN = [
  'configmaps',
  'pods',
  'secrets',
  'services',
  'endpointslices',
  'serviceaccounts',
  'events',
  'roles',
  'things',
  'reconcilefunctions',
] as const;
export type Written = (typeof WRITTEN)[number];

/** One thing that a tenant does. A list of them can be recorded and done again. */
export type Action =
  /** Creates an object in its own namespace, or merges this into the one that is there. */
  | { readonly do: 'put'; readonly what: Written; readonly name: string; readonly object: BulkObject }
  | { readonly do: 'remove'; readonly what: Written; readonly name: string }
  | { readonly do: 'remove all'; readonly what: Written }
  /** From now on its functions answer so, in turn. */
  | { readonly do: 'behave'; readonly as: readonly BehaviourName[] }
  /** As many ReconcileFunctions as a namespace may have, all with this spec but for their endpoints. */
  | { readonly do: 'declare many'; readonly spec: BulkObject }
  /** Sends an outcome that no run has had, to a controller. */
  | { readonly do: 'call back'; readonly controller: string; readonly body: Bulk; readonly isSigned: boolean }
  /** Sends a review that no apiserver has made, to a webhook. */
  | { readonly do: 'review'; readonly controller: string; readonly webhook: string; readonly body: Bulk }
  /** Sends this to the Kubernetes API through the gateway, with its newest tokens and with that of its next run. */
  | {
      readonly do: 'proxy';
      readonly method: string;
      readonly path: string;
      readonly contentType: string;
      readonly body: Bulk | undefined;
      /** The header that names the run: as it should be, or made up. */
      readonly run: string;
    }
  /** Asks the cache API for a path, with each of its newest tokens. */
  | { readonly do: 'ask'; readonly path: string };

/** The name of the victim's ReconcileFunction, which the tenant knows. */
export const VICTIM_FUNCTION = 'healthy';
/** The name of the webhook of each ReconcileFunction that has one. */
export const WEBHOOK = 'rule';

/** A group in which the tenant may grant rights, to names of any number and length. */
export const GRANTED_GROUP = 'granted.example.com';

/** A few words of an action, for a message. */
export function describeAction(action: Action): string {
  const text = JSON.stringify(action);
  return text.length > 600 ? `${text.slice(0, 600)}… (${text.length} characters)` : text;
}

/**
 * How recorded actions name what differs from run to run: what a seed makes is the same list each time, and a recording
 * can be done again in another world.
 */
export const PLACES = {
  namespace: 'hostile-namespace',
  victimNamespace: 'victim-namespace',
  victimUid: '0d5ac1e5-0000-4000-8000-000000000000',
  group: 'hostile-namespace.example.com',
  functionUrl: 'http://function.invalid',
  secureUrl: 'https://function.invalid',
  secureCa: 'c2VjdXJlLWNh',
  gatewayUrl: 'http://gateway.invalid',
} as const;

/** The action as it is done in a world in which these are the places. */
export function placed(action: Action, places: Readonly<Record<keyof typeof PLACES, string>>): Action {
  let text = JSON.stringify(action);
  // The group before the namespace that it begins with.
  const { group, ...others } = PLACES;
  text = text.replaceAll(group, places.group);
  for (const [name, place] of Object.entries(others)) {
    text = text.replaceAll(place, places[name as keyof typeof others]);
  }
  return JSON.parse(text) as Action;
}
