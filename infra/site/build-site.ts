/**
 * `npm run docs [-- --out FOLDER] [-- --base PATH]`: builds the site of the documents, by default into `dist/site`.
 * Then `npx --yes serve dist/site`, or any server of files, shows it.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './pages.ts';
import { buildSite } from './site.ts';

const { values } = parseArgs({
  options: { out: { type: 'string', default: 'dist/site' }, base: { type: 'string', default: '/' } },
});
const out = resolve(ROOT, values.out);
await buildSite({ out, base: values.base });
process.stdout.write(`the site is in ${out}\n`);
