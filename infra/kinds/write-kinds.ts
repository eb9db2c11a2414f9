import { readdir, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import { loadCredentials } from '../../src/ground/apiserver/credentials.ts';
import { startControlPlane } from '../../src/testing/index.ts';
import { formatKinds, KINDS_FOLDER } from './format-kinds.ts';
import { generateKinds } from './generate-kinds.ts';

/** Writes src/function/kinds anew, from an apiserver of the version that our tests run. `npm run kinds` */
const plane = await startControlPlane();
try {
  const credentials = await loadCredentials(plane.kubeconfig);
  const files = await formatKinds(await generateKinds(new ApiClient(credentials)));
  for (const old of await readdir(KINDS_FOLDER)) {
    if (old.endsWith('.ts')) await rm(resolve(KINDS_FOLDER, old));
  }
  for (const [name, text] of files) await writeFile(resolve(KINDS_FOLDER, name), text);
  await credentials.close();
} finally {
  await plane.stop();
}
