import { writeFile } from 'node:fs/promises';
import { CRD_FILE, formatCrd } from './reconcile-function-crd.ts';

/** Writes the definition anew: `npm run crds`. */
await writeFile(new URL(`../../${CRD_FILE}`, import.meta.url), formatCrd());
