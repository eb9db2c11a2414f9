import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface BillOfMaterials {
  readonly components: readonly { readonly 'bom-ref': string }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/**
 * The bill of materials (CycloneDX, as JSON) of an image that holds the packages in these folders. `npm sbom` makes it
 * of package-lock.json in the current folder, with hashes and licenses. `npm sbom --omit=dev` is no help: it leaves out
 * packages that a development dependency needs too, such as yaml.
 * @param folders below node_modules, relative to the current folder.
 * @throws Error naming packages that package-lock.json does not have.
 */
export function billOfMaterials(folders: Iterable<string>): string {
  const packages = new Set([...folders].map(reference));
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'];
  const text = execFileSync('npm', args, { encoding: 'utf8', maxBuffer: 64e6, stdio: ['ignore', 'pipe', 'ignore'] });
  const bill = JSON.parse(text) as BillOfMaterials;
  const components = bill.components.filter((each) => packages.has(each['bom-ref']));
  const kept = new Set(components.map((each) => each['bom-ref']));
  const unknown = [...packages].filter((each) => !kept.has(each));
  if (unknown.length > 0) throw new Error(`package-lock.json does not have ${unknown.join(', ')}`);
  const dependencies = bill.dependencies
    .filter(({ ref }, at) => at === 0 || kept.has(ref))
    .map((each) => ({ ...each, dependsOn: each.dependsOn.filter((ref) => kept.has(ref)) }));
  return `${JSON.stringify({ ...bill, components, dependencies }, null, 2)}\n`;
}

/** `name@version`, as npm refers to a package. */
function reference(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>;
  return `${name}@${version}`;
}
