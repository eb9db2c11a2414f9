import { globSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Controller } from 'levelhook/function';

const folder = new URL('..', import.meta.url);

it.each(globSync('*/controller.ts', { cwd: folder }))('%s writes in the namespace of its key alone', async (path) => {
  const module = (await import(new URL(path, folder).href)) as Record<string, unknown>;
  const controllers = Object.values(module).filter(isController);
  expect(controllers).not.toEqual([]);
  for (const { writesAcrossNamespaces } of controllers) expect(writesAcrossNamespaces).not.toBe(true);
});

function isController(value: unknown): value is Controller {
  return typeof value === 'object' && value !== null && 'run' in value && 'for' in value;
}
