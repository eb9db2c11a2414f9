import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Where the version of package.json stands besides, each as what to match. */
const PLACES: readonly (readonly [file: string, version: RegExp])[] = [
  ['package-lock.json', /(?<="name": "levelhook",\n\s+"version": ")[^"]+/g],
  ['infra/helm/levelhook/Chart.yaml', /(?<=^(?:appV|v)ersion: ).+$/gm],
  ['infra/helm/levelhook-functions/Chart.yaml', /(?<=^(?:appV|v)ersion: ).+$/gm],
  ['infra/images/README.md', /(?<=levelhook\/gateway:)\S+/g],
  ['infra/images/gateway.Dockerfile', /(?<=levelhook\/gateway:)\S+/g],
  ['functions/examples/20-platforms/package.json', /(?<="@levelhook\/function": "\^)[^"]+/g],
  ['functions/examples/20-platforms/deno/deno.json', /(?<=npm:@levelhook\/function@\^)[^"/]+/g],
];

/** The version of package.json, which both packages have. */
export function currentVersion(root: string): string {
  return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version;
}

/**
 * The versions that stand in each other file.
 * @throws Error if a file has none: then it, or the list above, is wrong.
 */
export function versionsElsewhere(root: string): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    PLACES.map(([file, version]) => {
      const found = readFileSync(join(root, file), 'utf8').match(version);
      if (!found) throw new Error(`${file} has no version of levelhook`);
      return [file, found];
    }),
  );
}

/** Writes the version of package.json into the other files. @throws as `versionsElsewhere`. */
export function followVersion(root: string): void {
  versionsElsewhere(root);
  for (const [file, version] of PLACES) {
    const path = join(root, file);
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(version, currentVersion(root)));
  }
}

const RELEASED = 'infra/contract/v1/released';

/** The documents of the contract. A release keeps a copy of each in `released`. */
const DOCUMENTS = 'infra/{contract/v1/{*.json,accepted/*.ndjson},crds/*.yaml}';

/** The documents of the contract, each with the place of its copy. */
function documents(root: string): (readonly [file: string, copy: string])[] {
  return globSync(DOCUMENTS, { cwd: root }).map((file) => {
    const folder = basename(dirname(file)) === 'accepted' ? 'accepted' : '';
    return [file, join(RELEASED, folder, basename(file))];
  });
}

/** Keeps the documents of the contract, to compare later ones with them: see `infra/contract/versions.md`. */
export function releaseContract(root: string): void {
  for (const [file, copy] of documents(root)) {
    mkdirSync(dirname(join(root, copy)), { recursive: true });
    copyFileSync(join(root, file), join(root, copy));
  }
}

/** The documents of the contract that have no copy in `released`, or a copy that differs. */
export function documentsNotReleased(root: string): string[] {
  return documents(root).flatMap(([file, copy]) => {
    const [now, released] = [file, copy].map((each) => join(root, each)) as [string, string];
    return existsSync(released) && readFileSync(released).equals(readFileSync(now)) ? [] : [file];
  });
}

/** The files of `released` that are not as the tag of this version has them. None before the tag exists. */
export function changedSinceRelease(root: string): string[] {
  const git = (...args: string[]): string[] =>
    // In a container the checkout may belong to another user, which git refuses by default.
    execFileSync('git', ['-c', 'safe.directory=*', ...args], { cwd: root, encoding: 'utf8' })
      .split('\n')
      .filter(Boolean);
  const [tag] = existsSync(join(root, '.git')) ? git('tag', '--list', `v${currentVersion(root)}`) : [];
  return tag === undefined ? [] : git('diff', '--name-only', tag, '--', RELEASED);
}
