import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { z } from 'zod';

const manifestSchema = z.object({
  version: z.string(),
  license: z.string(),
  repository: z.object({ type: z.string(), url: z.string() }),
  publishConfig: z.object({ access: z.literal('public'), provenance: z.literal(true) }),
  dependencies: z.record(z.string(), z.string()),
  exports: z.record(
    z.string(),
    z.union([
      z.string(),
      z.object({ types: z.string(), default: z.string() }).transform(({ types, default: js }) => ({ types, js })),
    ]),
  ),
});

/** Of the entries for Node: undici needs it. The gateway, in the package `levelhook`, needs more. */
const ENGINES = { node: '>=22.19.0' };

/** What the SDK always needs. A package that only some entries need is an optional peer. */
const DEPENDENCIES = ['hono'];

/**
 * Makes the package `@levelhook/function` of what the build has made for `levelhook`: its entries `levelhook/function`
 * and below under shorter names, the files that these import, and a manifest. Packages that an entry imports beside
 * hono are optional peers: an author who uses the entry installs them.
 *
 * @param built the folder with `src`, as `build.ts` has filled it
 * @param folder where the package goes
 */
export function writeFunctionPackage(root: string, built: string, folder: string): void {
  const manifest = manifestSchema.parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));
  const source = join(built, 'src');
  const entries = Object.entries(manifest.exports).flatMap(([name, target]) =>
    typeof target === 'string' || !/^[.]\/function(?:\/|$)/.test(name)
      ? []
      : [{ name: name.replace('./function', '.'), ...withoutPrefix(target) }],
  );
  const { files, packages } = reachable(
    source,
    entries.flatMap(({ types, js }) => [types, js]),
  );
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(source, file), join(folder, file));
  }
  const rangeOf = (name: string): [string, string] => [name, manifest.dependencies[name] ?? missing(name)];
  const peers = packages.filter((name) => !DEPENDENCIES.includes(name)).toSorted();
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify(
      {
        name: '@levelhook/function',
        version: manifest.version,
        description:
          'Kubernetes controllers as serverless functions: the SDK, for Node, AWS Lambda, Workers, Deno, Bun.',
        license: manifest.license,
        repository: { ...manifest.repository, directory: 'src/function' },
        publishConfig: manifest.publishConfig,
        type: 'module',
        sideEffects: false,
        engines: ENGINES,
        exports: {
          ...Object.fromEntries(
            entries.map(({ name, types, js }) => [name, { types: `./${types}`, default: `./${js}` }]),
          ),
          './package.json': './package.json',
        },
        dependencies: Object.fromEntries(DEPENDENCIES.map(rangeOf)),
        peerDependencies: Object.fromEntries(peers.map(rangeOf)),
        peerDependenciesMeta: Object.fromEntries(peers.map((name) => [name, { optional: true }])),
      },
      null,
      2,
    )}\n`,
  );
  for (const [from, to] of [
    ['LICENSE', 'LICENSE'],
    ['CHANGELOG.md', 'CHANGELOG.md'],
    ['src/function/PACKAGE.md', 'README.md'],
  ] as const) {
    cpSync(join(root, from), join(folder, to));
  }
}

function withoutPrefix({ types, js }: { types: string; js: string }): { types: string; js: string } {
  const short = (path: string): string => path.replace('./dist/src/', '');
  return { types: short(types), js: short(js) };
}

function missing(name: string): never {
  throw new Error(`levelhook/function imports ${name}, which is no dependency of package.json`);
}

/** The files of `folder` that these import, themselves included, and the packages that they name. */
function reachable(folder: string, entries: readonly string[]): { files: string[]; packages: string[] } {
  const packages = new Set<string>();
  // Grows while it is read.
  const files = new Set(entries);
  for (const file of files) {
    for (const [, specifier = ''] of readFileSync(join(folder, file), 'utf8').matchAll(IMPORT)) {
      if (specifier.startsWith('.')) {
        const path = relative(folder, join(folder, dirname(file), specifier));
        files.add(file.endsWith('.d.ts') ? path.replace(/[.]ts$/, '.d.ts') : path);
      } else if (!specifier.startsWith('node:') && !file.endsWith('.d.ts')) {
        packages.add(specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/'));
      }
    }
  }
  const gone = [...files].filter((file) => !existsSync(join(folder, file)));
  if (gone.length > 0)
    throw new Error(`levelhook/function imports files that the build has not made: ${gone.join(', ')}`);
  return { files: [...files], packages: [...packages] };
}

/** In what TypeScript writes: `from '...'`, `import '...'` and `import('...')`. */
const IMPORT = /\b(?:from|import)\s*\(?\s*["']([^"'\n]+)["']/g;
