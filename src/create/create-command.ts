import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { UserError } from '../core/index.ts';
import { type Language, LANGUAGES } from './project-options.ts';
import { checkProjectName, projectKind, projectFiles } from './project.ts';

export interface CreateFlags {
  readonly name?: string | undefined;
  readonly kind?: string | undefined;
  readonly language?: string | undefined;
  readonly packageManager?: string | undefined;
  readonly install: boolean;
}

const DEFAULT_KIND = 'example.com/v1/Site';
/** The version of Node that functions and commands need. */
const NODE = 24;
const PACKAGE_MANAGERS = ['npm', 'pnpm'] as const;

/**
 * `npm create levelhook` and `levelhook init`: writes a new project. It asks at a terminal for what the flags leave
 * open; elsewhere it takes the defaults.
 * @param folder of the project: absent, or empty but for files of git. Default: the current one.
 * @param version of the packages of levelhook.
 */
export async function createCommand(folder: string | undefined, flags: CreateFlags, version: string): Promise<void> {
  const target = resolve(folder ?? '.');
  const inTheWay = existsSync(target)
    ? readdirSync(target).filter((name) => !/^(\.git|\.gitignore|LICENSE)$/.test(name))
    : [];
  if (inTheWay.length > 0) {
    throw new UserError(`${target} is not empty (${inTheWay.slice(0, 3).join(', ')}): name another folder.`);
  }
  const ask =
    process.stdin.isTTY && process.stdout.isTTY ? question : async (_: string, otherwise: string) => otherwise;
  const usual = basename(target)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '');
  const name = checkProjectName(flags.name ?? (await ask('Name of the controller', usual || 'site')));
  const kind = projectKind(
    flags.kind ?? (await ask('Kind that it reconciles, your own or v1/ConfigMap', DEFAULT_KIND)),
  );
  const language = languageOf(flags.language ?? (await ask('TypeScript, Python or Go', 'typescript')));
  const packageManager = managerOf(flags.packageManager ?? usedManager());
  const bringsNode = Number(process.versions.node.split('.')[0]) < NODE;
  const files = projectFiles({ name, kind, language, packageManager, version, bringsNode });
  for (const [path, text] of files) {
    mkdirSync(dirname(join(target, path)), { recursive: true });
    writeFileSync(join(target, path), text);
  }
  process.stdout.write(`wrote ${files.size} files to ${target}\n`);
  if (flags.install) install(packageManager, target);
  process.stdout.write(nextSteps(relative('.', target), packageManager, flags.install));
}

async function question(text: string, otherwise: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return (await terminal.question(`${text} [${otherwise}]: `)).trim() || otherwise;
  } finally {
    terminal.close();
  }
}

function languageOf(text: string): Language {
  const found = LANGUAGES.find((each) => each === text.toLowerCase());
  if (!found) throw new UserError(`"${text}" is no language that a project can have: take ${LANGUAGES.join(', ')}.`);
  return found;
}

function managerOf(text: string): (typeof PACKAGE_MANAGERS)[number] {
  const found = PACKAGE_MANAGERS.find((each) => each === text);
  if (!found) throw new UserError(`"${text}" is no package manager that a project can have: take npm or pnpm.`);
  return found;
}

/** The one that has started this command. */
function usedManager(): string {
  return process.env['npm_config_user_agent']?.startsWith('pnpm/') ? 'pnpm' : 'npm';
}

function install(packageManager: string, target: string): void {
  const { status } = spawnSync(packageManager, ['install'], { cwd: target, stdio: 'inherit' });
  if (status !== 0)
    throw new UserError(`${packageManager} install failed in ${target}: the files are there, try again.`);
}

function nextSteps(folder: string, packageManager: string, isInstalled: boolean): string {
  const run = packageManager === 'pnpm' ? 'pnpm' : 'npm run';
  const steps = [
    ...(folder === '' ? [] : [`cd ${folder}`]),
    ...(isInstalled ? [] : [`${packageManager} install`]),
    `${packageManager} test`,
    `${run} dev`,
  ];
  return `\nNext:\n${steps.map((step) => `  ${step}\n`).join('')}`;
}
