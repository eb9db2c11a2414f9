/** Writes the bill of materials of the packages in node_modules: `node infra/images/write-installed-bill.ts FILE`. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { billOfMaterials } from './bill-of-materials.ts';

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error('usage: write-installed-bill.ts FILE');
// What npm has installed here, without what was removed since.
const { packages } = JSON.parse(readFileSync('node_modules/.package-lock.json', 'utf8')) as {
  packages: Record<string, unknown>;
};
writeFileSync(file, billOfMaterials(Object.keys(packages).filter((folder) => existsSync(folder))));
