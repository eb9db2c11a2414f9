/** Writes the bill of materials of the packages in node_modules: `node infra/images/write-installed-bill.ts FILE`. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { billOfMaterials } from './bill-of-materials.ts';

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error('usage: write-installed-bill.ts FILE');
// All packages of the lock file that are there: some were removed since, and some put back by hand.
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, unknown> };
writeFileSync(file, billOfMaterials(Object.keys(packages).filter((folder) => folder !== '' && existsSync(folder))));
