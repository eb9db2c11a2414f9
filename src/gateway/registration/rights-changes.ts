/** The rights that a ReconcileFunction was asked about at its last review. */
export interface AskedRights {
  readonly account: { readonly namespace: string; readonly name: string };
  /** The namespaces in which they are. Empty: they are rights in the whole cluster alone. */
  readonly namespaces: ReadonlySet<string>;
}

/** Changes of objects that give rights, and whom they can concern. */
export class RightsChanges {
  /** ServiceAccounts as `namespace/name`, `namespace/*` or `*`. */
  readonly #accounts = new Set<string>();
  readonly #namespaces = new Set<string>();
  #anyNamespace = false;

  get isEmpty(): boolean {
    return this.#accounts.size + this.#namespaces.size === 0 && !this.#anyNamespace;
  }

  /** Rights of these accounts, wherever they are. */
  ofAccounts(accounts: Iterable<string>): void {
    for (const account of accounts) this.#accounts.add(account);
  }

  /** Rights of anybody in one namespace, such as by its RoleBindings. */
  inNamespace(namespace: string): void {
    this.#namespaces.add(namespace);
  }

  /** Rights of anybody in some namespace, such as by RoleBindings to a ClusterRole. */
  inAnyNamespace(): void {
    this.#anyNamespace = true;
  }

  ofAll(): void {
    this.#accounts.add('*');
  }

  concern({ account: { namespace, name }, namespaces }: AskedRights): boolean {
    const names = ['*', `${namespace}/*`, `${namespace}/${name}`];
    if (names.some((each) => this.#accounts.has(each))) return true;
    if (this.#anyNamespace && namespaces.size > 0) return true;
    // A declaration names thousands of namespaces, and a tenant changes rights in its own all the time.
    const bySize = [namespaces, this.#namespaces].toSorted((a, b) => a.size - b.size);
    const [few, many] = bySize as [ReadonlySet<string>, ReadonlySet<string>];
    return [...few].some((each) => many.has(each));
  }
}
