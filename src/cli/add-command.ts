import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { UserError } from '../core/index.ts';
import { addController, type Addition, addKind, addWebhook } from '../create/add.ts';
import { projectKind } from '../create/project.ts';

export interface AddFlags {
  readonly kind?: string;
}

const read = (path: string): string | undefined => (existsSync(path) ? readFileSync(path, 'utf8') : undefined);

/** `levelhook add`: extends the project in this folder. */
export function addCommand(what: 'controller' | 'kind' | 'webhook', name: string, { kind }: AddFlags): void {
  if (!existsSync('package.json')) throw new UserError('There is no package.json here: call this in a project.');
  const { files, left } = addition(what, name, kind);
  for (const [path, text] of files) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    process.stdout.write(`wrote ${path}\n`);
  }
  for (const sentence of left) process.stdout.write(`${sentence}\n`);
}

function addition(what: 'controller' | 'kind' | 'webhook', name: string, kind: string | undefined): Addition {
  if (what === 'kind') return addKind(projectKind(name), read);
  if (kind === undefined) throw new UserError(`Say by --kind which kind the ${what} is about.`);
  const add = what === 'controller' ? addController : addWebhook;
  return add({ name, kind: projectKind(kind) }, read);
}
