import { formatKind, type KubernetesObject, resource as resourceOf, type Resource } from '../../core/index.ts';
import * as kinds from '../../function/kinds/index.ts';

/** The built-in kinds without `AllowUnconditionalUpdate` (kubernetes/pkg/registry). */
const CONDITIONAL: ReadonlySet<string> = new Set([
  'CSIDriver',
  'CSINode',
  'CSIStorageCapacity',
  'Lease',
  'MutatingAdmissionPolicy',
  'MutatingAdmissionPolicyBinding',
  'MutatingWebhookConfiguration',
  'PodDisruptionBudget',
  'RuntimeClass',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
  'ValidatingWebhookConfiguration',
  'VolumeAttachment',
]);

/** The kinds of one memory apiserver: Kubernetes' own, kinds that a test names, and others by the usual naming rule. */
export class Resources {
  readonly #byPath = new Map<string, Resource>();
  readonly #byKind = new Map<string, Resource>();
  readonly #builtIn: ReadonlySet<string>;

  constructor(custom: readonly Resource[]) {
    const builtIn: readonly Resource[] = Object.values(kinds);
    this.#builtIn = new Set(builtIn.map(formatKind));
    for (const each of [...builtIn, ...custom]) this.#add(each);
  }

  ofPath(apiVersion: string, plural: string): Resource | undefined {
    return this.#byPath.get(`${apiVersion}/${plural}`);
  }

  /** Uses `resource(apiVersion, kind)` when the plural is not given; namespaced when the object is. */
  ofObject({ apiVersion, kind, metadata }: KubernetesObject): Resource {
    const known = this.#byKind.get(formatKind({ apiVersion, kind }));
    return known ?? this.#add(resourceOf(apiVersion, kind, { namespaced: Boolean(metadata.namespace) }));
  }

  /** All resources with a known kind. */
  all(): Iterable<Resource> {
    return this.#byKind.values();
  }

  isBuiltIn(resource: Resource): boolean {
    return this.#builtIn.has(formatKind(resource));
  }

  /** Whether a replace must name the version that it replaces. */
  needsVersion(resource: Resource): boolean {
    return !this.isBuiltIn(resource) || CONDITIONAL.has(resource.kind);
  }

  /** A placeholder for a resource with a known path, until an object shows its kind. */
  guess(apiVersion: string, plural: string, namespaced: boolean): Resource {
    return this.ofPath(apiVersion, plural) ?? { apiVersion, kind: '', plural, namespaced };
  }

  #add(each: Resource): Resource {
    this.#byPath.set(`${each.apiVersion}/${each.plural}`, each);
    this.#byKind.set(formatKind(each), each);
    return each;
  }
}
