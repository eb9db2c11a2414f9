import { createRequire } from 'node:module';
import type * as Library from '@bufbuild/cel';

let library: typeof Library | undefined;

/** The CEL library: loaded for the first expression, since it takes 0.1 s and 10 MB, and most gateways have none. */
export function celLibrary(): typeof Library {
  // Not `import()`: an expression is parsed and evaluated within one tick.
  library ??= createRequire(import.meta.url)('@bufbuild/cel') as typeof Library;
  return library;
}
