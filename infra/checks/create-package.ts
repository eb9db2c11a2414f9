import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { z } from 'zod';

const manifestSchema = z.object({
  version: z.string(),
  license: z.string(),
  repository: z.object({ type: z.string(), url: z.string() }),
  publishConfig: z.object({ access: z.literal('public'), provenance: z.literal(true) }),
});

const README = `# create-levelhook

\`npm create levelhook@latest FOLDER\` writes a project with a Kubernetes controller for
[levelhook](https://www.npmjs.com/package/levelhook): the controller, its kind, its tests, and all that it needs to run.
\`npm create levelhook@latest -- --help\` shows the options.
`;

/**
 * Makes the package `create-levelhook` of what the build has made for `levelhook`: one program that needs nothing,
 * because npm downloads it before the first question, and the libraries that it copies into projects.
 * @param built the folder with `src`, as `build.ts` has filled it
 * @param folder where the package goes
 */
export function writeCreatePackage(root: string, built: string, folder: string): void {
  const manifest = manifestSchema.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));
  mkdirSync(folder, { recursive: true });
  buildSync({
    entryPoints: [join(built, 'src/create/create-levelhook.js')],
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    outfile: join(folder, 'create-levelhook.js'),
    logLevel: 'error',
  });
  const own = {
    name: 'create-levelhook',
    version: manifest.version,
    description: 'Writes a project with a Kubernetes controller for levelhook.',
    license: manifest.license,
    repository: { ...manifest.repository, directory: 'src/create' },
    publishConfig: manifest.publishConfig,
    type: 'module',
    bin: { 'create-levelhook': 'create-levelhook.js' },
    files: ['create-levelhook.js', 'functions'],
    engines: { node: '>=20' },
  };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(own, null, 2)}\n`);
  // The libraries of projects in Python and Go.
  for (const path of ['10-python/levelhook.py', '11-go/levelhook']) {
    cpSync(join(built, 'functions/examples', path), join(folder, 'functions/examples', path), { recursive: true });
  }
  writeFileSync(join(folder, 'README.md'), README);
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
}
