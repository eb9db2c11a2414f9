import { isDns1035Label, isDnsSubdomain, UserError } from '../core/index.ts';
import type { ProjectKind, ProjectOptions } from './project-options.ts';
import { plainFiles } from './plain-texts.ts';
import { readme, workflow } from './shared-texts.ts';
import { ProjectTexts, TSCONFIG, controllerVariable } from './project-texts.ts';

/** The kinds of Kubernetes that a project may be about, and the spec that an object of it must have. */
export const BUILT_IN: ReadonlyMap<string, object | undefined> = new Map([
  ['v1/ConfigMap', undefined],
  ['v1/Secret', undefined],
  ['v1/ServiceAccount', undefined],
  ['v1/Service', { ports: [{ port: 80 }] }],
  ['v1/Pod', { containers: [{ name: 'main', image: 'registry.k8s.io/pause:3.10' }] }],
]);

/** Groups of Kubernetes itself have no dot, or end with this. */
const KUBERNETES_GROUP = /^[a-z]*$|\.k8s\.io$/;

/** Names that the files of a project have for something else: its modules, imports and variables. */
const TAKEN = new Set(
  [
    'node kinds ConfigMap Condition KubernetesObject MemoryApiserver RealApiserver Resource TerminalError',
    'controller equal generationChanged isControlledBy readDefinitions resource runReconciler serveController',
    'setControllerReference setStatusCondition startControlPlane testContext afterAll beforeAll expect it',
    'api apiserver before cache child childKey conditions data found key labels log metadata name namespace',
    'object observedGeneration outcome plane ready request run taken writes',
  ].flatMap((line) => line.split(' ')),
);
/** ECMAScript, Reserved Words, of a module. */
const RESERVED = new Set(
  [
    'arguments await break case catch class const continue debugger default delete do else enum eval export extends',
    'false finally for function if implements import in instanceof interface let new null package private protected',
    'public return static super switch this throw true try typeof undefined var void while with yield',
  ].flatMap((line) => line.split(' ')),
);

/**
 * @param text `example.com/v1/Site`, `v1/ConfigMap`
 * @throws UserError when it is none
 */
export function projectKind(text: string): ProjectKind {
  const parts = text.split('/');
  const [group = '', version = '', kind = ''] = parts.length === 2 ? ['', ...parts] : parts;
  const isGroup = group === '' || isDnsSubdomain(group);
  if (parts.length > 3 || !isGroup || !isDns1035Label(version) || !/^[A-Z][A-Za-z0-9]{0,62}$/.test(kind)) {
    throw new UserError(
      `"${text}" is no kind: write it as example.com/v1/Site, or v1/ConfigMap for one of Kubernetes.`,
    );
  }
  const own = !KUBERNETES_GROUP.test(group);
  if (!own && !BUILT_IN.has(text)) {
    throw new UserError(
      `"${text}" is no kind that a project can begin with: take one of ${[...BUILT_IN.keys()].join(', ')}.`,
    );
  }
  if (own && TAKEN.has(kind)) {
    throw new UserError(`"${text}" is no kind that a project can begin with: its files import another ${kind}.`);
  }
  return { group, version, kind, own };
}

/** @throws UserError when it is no name of a controller. */
export function checkProjectName(name: string): string {
  if (name.length > 50 || !isDns1035Label(name)) {
    throw new UserError(
      `"${name}" is no name of a controller: write up to 50 lower-case letters, digits and dashes, with a letter first.`,
    );
  }
  const variable = controllerVariable(name);
  if (TAKEN.has(variable) || RESERVED.has(variable)) {
    throw new UserError(
      `"${name}" is no name of a controller: the files of the project need ${variable} for something else. Take another, such as my-${name}.`,
    );
  }
  return name;
}

/** The files of a new project, by path. They are as prettier and `levelhook crds` leave them. */
export function projectFiles(options: ProjectOptions): Map<string, string> {
  const { kind, name } = options;
  if (options.language !== 'typescript') return plainProjectFiles(options);
  const text = projectTexts(options);
  const files = new Map<string, string>([
    ['package.json', text.manifest()],
    ['tsconfig.json', TSCONFIG],
    ['.gitignore', 'node_modules\n.levelhook\n'],
    ['.dockerignore', 'node_modules\n.levelhook\n.git\n'],
    ['.prettierrc.json', '{ "singleQuote": true, "printWidth": 120 }\n'],
    ['Dockerfile', text.dockerfile()],
    ['.github/workflows/ci.yml', workflow(options)],
    ['deploy/values.yaml', text.values()],
    ['deploy/sample.yaml', text.sample()],
    ['src/node.ts', text.entry()],
    [`src/${name}.ts`, text.controller()],
    [`src/${name}.test.ts`, text.test()],
    [`src/${name}.cluster.test.ts`, text.clusterTest()],
    ['README.md', readme(options)],
  ]);
  if (kind.own) {
    files.set('src/kinds.ts', text.kinds());
    files.set(definitionPath(text, kind), text.definition());
  }
  return files;
}

export function projectTexts(options: ProjectOptions): ProjectTexts {
  return new ProjectTexts(options, sampleSpec(options.kind));
}

function sampleSpec(kind: ProjectKind): object | undefined {
  return kind.own ? { text: 'Hello. ' } : BUILT_IN.get(formatKindOf(kind));
}

export function definitionPath({ plural }: ProjectTexts, { group }: ProjectKind): string {
  return `crds/${plural}.${group}.yaml`;
}

/** The files of a project in another language: those that depend on it, and the definition and the values. */
function plainProjectFiles(options: ProjectOptions): Map<string, string> {
  const { kind } = options;
  const text = projectTexts(options);
  const files = new Map<string, string>([
    ...plainFiles(options, sampleSpec(kind)),
    ['README.md', readme(options)],
    ['.github/workflows/ci.yml', workflow(options)],
    ['.gitignore', 'node_modules\n.levelhook\n__pycache__\n'],
    ['.dockerignore', 'node_modules\n.levelhook\n.git\n'],
    ['deploy/values.yaml', text.values()],
    ['deploy/sample.yaml', text.sample()],
  ]);
  if (kind.own) files.set(definitionPath(text, kind), text.definition());
  return files;
}

function formatKindOf({ group, kind, version }: ProjectKind): string {
  return [group, version, kind].filter((part) => part !== '').join('/');
}
