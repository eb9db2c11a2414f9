import { expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { newSeed, randomOf } from '../../../test/harness/random.ts';
import { type Exchange, ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { type Clock, type KubernetesObject, silentLogger, systemClock } from '../../core/index.ts';
import type { AskedRights, RightsChanges } from './rights-changes.ts';
import { RightsWatch } from './rights-watch.ts';

const STEPS = 150;
const NAMESPACES = ['shop', 'stock'];
const ACCOUNTS = NAMESPACES.flatMap((namespace) => ['reader', 'writer'].map((name) => ({ namespace, name })));
const ROLES = ['one', 'two'];
const KINDS = ['pods', 'secrets'];

interface Subject {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
}
interface Item extends KubernetesObject {
  /** A Role's: the kinds that it grants. */
  readonly grants?: readonly string[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly Subject[];
}

const SUBJECTS: readonly Subject[] = [
  ...ACCOUNTS.map((account) => ({ kind: 'ServiceAccount', ...account })),
  { kind: 'User', name: 'system:serviceaccount:shop:reader' },
  { kind: 'User', name: 'jane' },
  { kind: 'Group', name: 'system:serviceaccounts' },
  { kind: 'Group', name: 'system:serviceaccounts:stock' },
  { kind: 'Group', name: 'system:authenticated' },
  { kind: 'Group', name: 'developers' },
];

const FUNCTIONS: readonly AskedRights[] = ACCOUNTS.flatMap((account) =>
  [[], ['shop'], ['stock'], NAMESPACES].map((namespaces) => ({ account, namespaces: new Set(namespaces) })),
);

/** The objects of a cluster, and the answers of RBAC about them. */
class Cluster {
  readonly #items = new Map<string, Item>();

  get(plural: string, namespace: string, name: string): Item | undefined {
    return this.#items.get(`${plural} ${namespace}/${name}`);
  }

  set(plural: string, item: Item, isThere: boolean): void {
    const key = `${plural} ${item.metadata.namespace ?? ''}/${item.metadata.name}`;
    if (isThere) this.#items.set(key, item);
    else this.#items.delete(key);
  }

  /** Everything that a function's review finds. */
  answers({ account, namespaces }: AskedRights): string {
    const places = namespaces.size > 0 ? [...namespaces] : [''];
    const allowed = places.flatMap((place) => KINDS.filter((kind) => this.#mayRead(account, kind, place)).join());
    const { uid } = this.get('serviceaccounts', account.namespace, account.name)?.metadata ?? {};
    return JSON.stringify([uid, allowed]);
  }

  #mayRead(account: AskedRights['account'], kind: string, place: string): boolean {
    return [...this.#items].some(([key, { metadata, roleRef, subjects = [] }]) => {
      const isIn = key.startsWith('clusterrolebindings') || (place !== '' && metadata.namespace === place);
      if (!roleRef || !isIn || !subjects.some((subject) => isMeant(subject, account))) return false;
      const isOfNamespace = roleRef.kind === 'Role';
      const role = isOfNamespace ? this.get('roles', place, roleRef.name) : this.get('clusterroles', '', roleRef.name);
      return role?.grants?.includes(kind) === true;
    });
  }
}

function isMeant(subject: Subject, { namespace, name }: AskedRights['account']): boolean {
  if (subject.kind === 'ServiceAccount') return subject.namespace === namespace && subject.name === name;
  if (subject.kind === 'User') return subject.name === `system:serviceaccount:${namespace}:${name}`;
  return ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'].includes(
    subject.name,
  );
}

/** A hundred times as fast. */
const clock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 100, signal) };

it('each function whose rights change is concerned, whatever changes them', { timeout: 120_000 }, async () => {
  const seed = newSeed();
  process.stdout.write(`rights watch: TEST_SEED=${seed}\n`);
  const random = randomOf(seed);
  const oneOf = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const someOf = <T>(values: readonly T[]): T[] => values.filter(() => random() < 0.3);

  const server = await ScriptedApiserver.start();
  const streams = new Map<string, Exchange>();
  const serve = async (): Promise<void> => {
    const asked = await server.next();
    if (asked.isWatch) {
      const plural = asked.path.split('/').at(-1) ?? '';
      streams.set(plural, asked.open().initialEventsEnd('1'));
    } else asked.list([], '1');
    await serve();
  };
  void serve();

  // The watch reports each change twice; the second report must not hide a missing first one.
  const seen = new Set<RightsChanges>();
  let told: RightsChanges[] = [];
  const stop = new AbortController();
  const watch = new RightsWatch({ client: server.client, runtime: { clock, logger: silentLogger } });
  const ended = watch.run((changes) => {
    if (!seen.has(changes)) told.push(changes);
    seen.add(changes);
  }, stop.signal);
  try {
    await eventually(async () => expect(streams.size).toBe(5), 60_000, 5);
    const cluster = new Cluster();
    let compared = 0;
    for (let step = 2; step < STEPS + 2; step += 1) {
      const plural = oneOf(['serviceaccounts', 'roles', 'clusterroles', 'rolebindings', 'clusterrolebindings']);
      const namespace = plural.startsWith('cluster') ? undefined : oneOf(NAMESPACES);
      const name = plural === 'serviceaccounts' ? oneOf(['reader', 'writer']) : oneOf(ROLES);
      const known = cluster.get(plural, namespace ?? '', name);
      const isDeleted = known !== undefined && random() < 0.4;
      const metadata = {
        name,
        ...(namespace === undefined ? {} : { namespace }),
        uid: known?.metadata.uid ?? `uid-${step}`,
        resourceVersion: String(step),
      };
      const item: Item = isDeleted
        ? { ...known, metadata }
        : {
            apiVersion: plural === 'serviceaccounts' ? 'v1' : 'rbac.authorization.k8s.io/v1',
            kind: 'Any',
            metadata,
            ...(plural.endsWith('roles') ? { grants: someOf(KINDS) } : {}),
            ...(plural.endsWith('bindings')
              ? {
                  // It cannot be changed in a binding that is there.
                  roleRef: known?.roleRef ?? {
                    kind: namespace === undefined ? 'ClusterRole' : oneOf(['Role', 'ClusterRole']),
                    name: oneOf(ROLES),
                  },
                  subjects: someOf(SUBJECTS),
                }
              : {}),
          };
      const before = FUNCTIONS.map((each) => cluster.answers(each));
      cluster.set(plural, item, !isDeleted);
      const changed = FUNCTIONS.filter((each, at) => cluster.answers(each) !== before[at]);
      told = [];
      // Of all but ClusterRoleBindings the gateway asks for the metadata alone.
      const { apiVersion, kind } = item;
      const sent = plural === 'clusterrolebindings' ? item : { apiVersion, kind, metadata };
      streams.get(plural)?.event(isDeleted ? 'DELETED' : known ? 'MODIFIED' : 'ADDED', sent);
      await eventually(
        async () => {
          const missed = changed.filter((each) => !told.some((changes) => changes.concern(each)));
          expect(missed, `step ${step}: ${JSON.stringify(item)}`).toEqual([]);
        },
        10_000,
        2,
      );
      compared += changed.length;
    }
    expect(compared).toBeGreaterThan(50);
  } finally {
    stop.abort();
    await ended;
    await server[Symbol.asyncDispose]();
  }
});
