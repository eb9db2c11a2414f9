#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { messageOf, printable, UserError } from '../core/index.ts';
import { createCommand } from './create-command.ts';

const USAGE = `npm create levelhook@latest [FOLDER] -- [OPTIONS]

Writes a project with a controller, its kind, its tests and all that it needs to run.

  --name NAME              of the controller (default: the folder's)
  --kind GROUP/VERSION/KIND  that it reconciles: your own, or v1/ConfigMap (default: example.com/v1/Site)
  --language NAME          typescript, python or go (default: typescript)
  --package-manager NAME   npm or pnpm (default: the one that runs this)
  --no-install             install no packages
  --help                   show this
`;

/** The command of the package `create-levelhook`. */
async function main(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    allowNegative: true,
    options: {
      name: { type: 'string' },
      kind: { type: 'string' },
      language: { type: 'string' },
      'package-manager': { type: 'string' },
      install: { type: 'boolean', default: true },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const [folder, ...more] = positionals;
  if (more.length > 0) throw new UserError('Name one folder: --help shows the usage.');
  const { version } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as { version: string };
  const { 'package-manager': packageManager, install, kind, language, name } = values;
  await createCommand(folder, { install, name, kind, language, packageManager }, version);
}

main().catch((error: unknown) => {
  const isUsers = error instanceof UserError || (error instanceof TypeError && 'code' in error);
  const text = isUsers ? messageOf(error) : error instanceof Error ? error.stack : String(error);
  process.stderr.write(printable(`create-levelhook: ${text}\n`));
  process.exitCode = 1;
});
