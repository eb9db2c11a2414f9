/**
 * Bundles the program that serves a function into one file, `function.mjs`, and writes its bill of materials,
 * `sbom.cdx.json`, with the packages that are in the bundle:
 *
 *     node infra/images/bundle-function.ts functions/examples/01-minimal/node.ts OUTPUT-FOLDER
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { billOfMaterials } from './bill-of-materials.ts';

const [entry, folder] = process.argv.slice(2);
if (entry === undefined || folder === undefined) throw new Error('usage: bundle-function.ts ENTRY OUTPUT-FOLDER');

const { metafile } = await build({
  entryPoints: [entry],
  outfile: join(folder, 'function.mjs'),
  bundle: true,
  minify: true,
  // Stack traces keep the names of functions.
  keepNames: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  conditions: ['levelhook-source'],
  // Only a kubeconfig with an exec plugin loads it. In a pod there is none, and it is nine tenths of the bundle.
  external: ['@kubernetes/client-node'],
  // Packages in CommonJS call it.
  banner: { js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);` },
  metafile: true,
  logLevel: 'warning',
});

const folders = Object.keys(metafile.inputs).flatMap(
  (path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.slice(0, 1) ?? [],
);
writeFileSync(join(folder, 'sbom.cdx.json'), billOfMaterials(folders));
