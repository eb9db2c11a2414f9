import { expect } from 'vitest';
import { controllerOf } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { startFunction } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

let cluster: Cluster;
let gateway: Opened;
let source: { namespace: string; name: string };
let greeting: { namespace: string; name: string };

it.beforeAll(async ({ world }) => {
  const { namespace } = world;
  ({ cluster } = world);
  [source, greeting] = [
    { namespace, name: 'ann' },
    { namespace, name: 'ann-greeting' },
  ];
  const fn = world.started.keep(await startFunction(world.setting, 'examples/01-minimal'));
  gateway = await world.gateway([fn.url]);
});

function says(text: string) {
  return eventually(async () => {
    const found = await cluster.get(configMaps, greeting);
    expect(found?.data).toEqual({ text });
    return found;
  });
}

it('the greeting function makes a greeting, which the source owns', async () => {
  const metadata = { ...source, labels: { greet: 'true' } };
  const { uid } = (await cluster.create(configMaps, { metadata, data: { name: 'Ann' } })).metadata;
  const made = await says('Hello, Ann!');
  expect(controllerOf(made ?? { metadata: {} })).toMatchObject({ kind: 'ConfigMap', name: 'ann', uid });
});

it('the greeting function changes a greeting with its source', async () => {
  await cluster.patch(configMaps, source, { data: { name: 'Anna' } });
  await says('Hello, Anna!');
});

it('the greeting function puts right what another client writes into it', async () => {
  await cluster.patch(configMaps, greeting, { data: { text: 'Go away!' } });
  await says('Hello, Anna!');
});

it('the greeting function makes a greeting again when it is deleted', async () => {
  const before = await says('Hello, Anna!');
  await cluster.delete(configMaps, greeting);
  const after = await says('Hello, Anna!');
  expect(after?.metadata.uid).not.toBe(before?.metadata.uid);
});

it('the greeting function lets a greeting go with its source', async () => {
  await cluster.delete(configMaps, source);
  await eventually(async () => expect(await cluster.get(configMaps, greeting)).toBeUndefined());
});

it('the greeting function leaves alone what is not labelled, and what is not its own', async () => {
  const { namespace } = source;
  const others = { namespace, name: 'bob-greeting' };
  await cluster.create(configMaps, { metadata: others, data: { text: 'mine' } });
  await cluster.create(configMaps, { metadata: { namespace, name: 'unlabelled' } });
  await cluster.create(configMaps, { metadata: { namespace, name: 'bob', labels: { greet: 'true' } } });
  await gateway.process.line(
    ({ msg, key, outcome }) => msg === 'trigger' && key === `${namespace}/bob` && outcome === 'error',
  );
  expect((await cluster.get(configMaps, others))?.data).toEqual({ text: 'mine' });
  expect(await cluster.get(configMaps, { namespace, name: 'unlabelled-greeting' })).toBeUndefined();
  // Out of the way: what was failing goes on.
  await cluster.delete(configMaps, others);
  await eventually(async () => {
    expect((await cluster.get(configMaps, others))?.data).toEqual({ text: 'Hello, world!' });
  });
});
