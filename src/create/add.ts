import { UserError } from '../core/index.ts';
import { checkProjectName, definitionPath, projectTexts } from './project.ts';
import type { ProjectKind, ProjectOptions } from './project-options.ts';
import { controllerVariable } from './project-texts.ts';

/** A file of the project: undefined when there is none. */
export type ReadFile = (path: string) => string | undefined;

const ENTRY = 'src/node.ts';
const KINDS = 'src/kinds.ts';

/**
 * The files that a change of a project writes, by path, and the steps that its author still has to take, as sentences.
 */
export interface Addition {
  readonly files: ReadonlyMap<string, string>;
  readonly left: readonly string[];
}

/**
 * Adds a controller with its tests, its kind where the project does not have it, and serves it with the others.
 * @throws UserError for a name that is taken, or a project that is not in TypeScript.
 */
export function addController(options: Pick<ProjectOptions, 'name' | 'kind'>, read: ReadFile): Addition {
  const name = checkProjectName(options.name);
  const entry = read(ENTRY);
  if (entry === undefined) throw new UserError(`There is no ${ENTRY} here: call this in the folder of a project.`);
  const path = `src/${name}.ts`;
  const text = projectTexts(whole(options));
  const own: readonly [string, string][] = [
    [path, text.controller()],
    [`src/${name}.test.ts`, text.test()],
    [`src/${name}.cluster.test.ts`, text.clusterTest()],
  ];
  for (const [each] of own) checkFree(each, read);
  const files = new Map([...own, ...(options.kind.own ? kindFiles(options.kind, read) : [])]);
  const served = servedBy(entry, name);
  if (served !== undefined) files.set(ENTRY, served);
  const variable = controllerVariable(name);
  const unserved = `Serve it in ${ENTRY}: import { ${variable} } from './${name}.ts', and give it to serveController.`;
  const left = [
    ...(served === undefined ? [unserved] : []),
    `Several controllers of a function have paths of their own, such as /${name}: say so (path) in deploy/values.yaml for each, and declare the new one there.`,
  ];
  return { files, left };
}

/**
 * Adds a kind of one's own: its type, and its definition.
 * @throws UserError for a kind that is there, or is no own one.
 */
export function addKind(kind: ProjectKind, read: ReadFile): Addition {
  if (!kind.own) throw new UserError(`${kind.kind} is a kind of Kubernetes: it needs no type in ${KINDS}.`);
  const files = kindFiles(kind, read);
  if (files.length === 0) throw new UserError(`${KINDS} has the kind ${kind.kind} already.`);
  return { files: new Map(files), left: [] };
}

/** Adds a validating webhook with its test. @throws UserError for a name that is taken. */
export function addWebhook({ name, kind }: Pick<ProjectOptions, 'name' | 'kind'>, read: ReadFile): Addition {
  checkProjectName(name);
  const path = `src/${name}.ts`;
  checkFree(path, read);
  const variable = controllerVariable(name);
  const from = kind.own ? './kinds.ts' : '@levelhook/function/kinds';
  const text = `import { deny, validatingWebhook } from '@levelhook/function/webhooks';
import { ${kind.kind} } from '${from}';

/** Refuses a ${kind.kind} whose name is longer than 40 characters. */
export const ${variable} = validatingWebhook({ name: '${name}', for: ${kind.kind} }).validate(async ({ object }) => {
  if (object.metadata.name.length > 40) return deny('the name is longer than 40 characters');
});
`;
  const left = [
    `Give it to a controller: import { ${variable} } from './${name}.ts', and webhooks: [${variable}] in its options.`,
    'levelhook manifest prints its configuration.',
  ];
  return { files: new Map([[path, text]]), left };
}

function checkFree(path: string, read: ReadFile): void {
  if (read(path) !== undefined) throw new UserError(`${path} is there already: take another name.`);
}

/**
 * None when the project has the kind.
 * @throws UserError when it has another version of it, or another kind of this name.
 */
function kindFiles(kind: ProjectKind, read: ReadFile): [string, string][] {
  const kinds = read(KINDS);
  const text = projectTexts(whole({ name: 'any', kind }));
  const path = definitionPath(text, kind);
  if (kinds !== undefined && new RegExp(`export interface ${kind.kind} `).test(kinds)) {
    const marker = `@kind ${kind.group}/${kind.version}`.replaceAll('.', '\\.');
    if (new RegExp(`${marker}$`, 'm').test(kinds)) return [];
    throw new UserError(`${KINDS} has another ${kind.kind}: a further version of it is yours to write there.`);
  }
  checkFree(path, read);
  return [
    [KINDS, kinds === undefined ? text.kinds() : `${kinds.trimEnd()}\n\n${text.kindType()}`],
    [path, text.definition()],
  ];
}

/** The entry with one more controller; undefined when it is not as a project begins with. */
function servedBy(entry: string, name: string): string | undefined {
  const call = /^await serveController\((\[[^\]]*\]|[\w$]+)\);$/m.exec(entry);
  const imports = [...entry.matchAll(/^import .*;$/gm)].at(-1);
  if (!call || !imports) return undefined;
  const variable = controllerVariable(name);
  const before = (call[1] ?? '')
    .replace(/^\[|\]$/g, '')
    .trim()
    .replace(/,$/, '');
  return entry
    .replace(call[0], `await serveController([${before}, ${variable}]);`)
    .replace(imports[0], `${imports[0]}\nimport { ${variable} } from './${name}.ts';`);
}

const whole = (options: Pick<ProjectOptions, 'name' | 'kind'>): ProjectOptions => ({
  ...options,
  language: 'typescript',
  packageManager: 'npm',
  version: '',
  bringsNode: false,
});
