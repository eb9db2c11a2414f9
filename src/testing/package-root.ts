import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { z } from 'zod';

const packageSchema = z.object({ name: z.string().optional() });

/**
 * A path below the directory of the package levelhook. It walks up to the package.json, since this code runs from
 * `src/testing` as well as from `dist/src/testing`.
 */
export function packagePath(...names: string[]): string {
  for (let directory = import.meta.dirname; ; directory = dirname(directory)) {
    const manifest = join(directory, 'package.json');
    if (existsSync(manifest) && packageSchema.parse(JSON.parse(readFileSync(manifest, 'utf8'))).name === 'levelhook') {
      return join(directory, ...names);
    }
    if (directory === dirname(directory)) throw new Error(`${import.meta.dirname} is not inside the package levelhook`);
  }
}
