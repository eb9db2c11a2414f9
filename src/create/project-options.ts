export const LANGUAGES = ['typescript', 'python', 'go'] as const;
export type Language = (typeof LANGUAGES)[number];

/** The answers that a new project is made of. */
export interface ProjectOptions {
  /** Of the package and the controller: a DNS label. */
  readonly name: string;
  /** A kind of one's own, which the project defines, or one that the cluster has. */
  readonly kind: ProjectKind;
  readonly language: Language;
  readonly packageManager: 'npm' | 'pnpm';
  /** Of the packages of levelhook. */
  readonly version: string;
  /** Whether the project brings Node 24 as a package, for a machine with an older one. */
  readonly bringsNode: boolean;
}

export interface ProjectKind {
  /** Empty: the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** Whether the project defines it. */
  readonly own: boolean;
}

/** What the files of a project in Python or Go have in common. */
export interface PlainProject {
  readonly name: string;
  readonly kind: string;
  readonly apiVersion: string;
  readonly plural: string;
  /** The path of the kind in the apiserver, up to the version. */
  readonly root: string;
  readonly own: boolean;
  /** An object of the kind, in JSON. */
  readonly object: string;
}
