import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Controller } from 'levelhook/function';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { deployment } from '../../functions/deployment/controller.ts';
import { endpoints } from '../../functions/endpoints/controller.ts';
import { endpointslice } from '../../functions/endpointslice/controller.ts';
import { endpointsliceMirroring } from '../../functions/endpointslice-mirroring/controller.ts';
import { nodeControllers } from '../../functions/node-lifecycle/controllers.ts';
import { DEFAULT_SETTINGS } from '../../functions/node-lifecycle/settings.ts';
import { replicaset } from '../../functions/replicaset/controller.ts';
import { type Manifest, printedRules, type Rule } from '../../test/harness/printed-rules.ts';
import { WRITE_VERBS } from '../../src/contract/source.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FUNCTIONS: Readonly<Record<string, readonly Controller[]>> = {
  deployment: [deployment],
  endpoints: [endpoints],
  endpointslice: [endpointslice],
  'endpointslice-mirroring': [endpointsliceMirroring],
  'node-lifecycle': nodeControllers(DEFAULT_SETTINGS),
  replicaset: [replicaset],
};
/** It deletes objects of kinds that it does not know, so it declares no writes. */
const OF_ANY_KIND = ['namespace'];

/** `VERB GROUP/RESOURCE` of each right to write. */
function rightsIn(rules: readonly Rule[]): string[] {
  const all = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((each) => verbs.map((verb) => [verb, `${group}/${each}`] as const))),
  );
  const writes = all.filter(([verb]) => (WRITE_VERBS as readonly string[]).includes(verb));
  return [...new Set(writes.map((each) => each.join(' ')))].toSorted();
}

it('are compared for every function with an rbac.yaml', () => {
  const folders = globSync('functions/*/rbac.yaml', { cwd: ROOT }).map((path) => basename(dirname(path)));
  expect(folders.toSorted()).toEqual([...Object.keys(FUNCTIONS), ...OF_ANY_KIND].toSorted());
});

// test/integration/line/rights.test.ts shows that each right in the file is used.
it.each(Object.entries(FUNCTIONS))('%s declares the writes that its rbac.yaml grants', (name, controllers) => {
  const text = readFileSync(resolve(ROOT, `functions/${name}/rbac.yaml`), 'utf8');
  const granted = parseAllDocuments(text).flatMap((each) => (each.toJS() as Partial<Manifest>).rules ?? []);
  expect(rightsIn(controllers.flatMap((each) => printedRules(each)))).toEqual(rightsIn(granted));
});
