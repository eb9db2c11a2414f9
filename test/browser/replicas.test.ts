import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import type { Opened } from '../harness/opened.ts';
import { it } from '../harness/world.ts';
import { openBrowser } from './browser.ts';
import { createMoody, startMoody, untilDead } from './scene.ts';

const complaints: string[] = [];
let namespace: string;
let first: Opened;
let second: Opened;
let page: Page;

it.beforeAll(async ({ world }) => {
  const { cluster, setting, started } = world;
  ({ namespace } = world);
  const moody = started.keep(await startMoody(setting, namespace));
  for (const at of [1, 2, 3]) await createMoody(cluster, { namespace, name: `broken-${at}` }, { terminal: 'no disk' });
  for (const name of ['calm', 'even']) await createMoody(cluster, { namespace, name }, {});
  const start = () => world.gateway([moody.url], { LEVELHOOK_LEASE: `${namespace}/levelhook` });
  first = await start();
  await untilDead(first.url, 3);
  second = await start();
  const browser = await openBrowser();
  started.add(() => browser.close());
  page = await browser.context.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
});

const keyUrl = ({ url }: Opened, name: string): string =>
  `${url}/dashboard/controllers/moody/keys/${namespace}/${name}`;
const state = (): Promise<string> => page.locator('h1 .state').innerText();
/** The rows of the table of gateways: role, and whether it is the gateway of the page. */
const gateways = async (): Promise<string[]> => {
  const rows = await page.getByRole('region', { name: 'Gateways' }).locator('tbody tr').allInnerTexts();
  return rows
    .map((row) => `${/leader|follower|alone|starting/.exec(row)?.[0]}${row.includes('this one') ? ', this one' : ''}`)
    .toSorted();
};

describe('a key', () => {
  it('is paused and resumed by a person, which the pages of all gateways show', async ({ world: { cluster } }) => {
    await eventually(async () => {
      await page.goto(keyUrl(first, 'calm'));
      expect(await state()).toBe('at rest');
    });
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText(`Paused: the key ${namespace}/calm. Runs in flight end.`).waitFor();
    expect(await state()).toBe('paused');
    await page.getByText('a person has paused this key').first().waitFor();

    // A change of the object waits, and ends nothing.
    await cluster.patch(configMaps, { namespace, name: 'calm' }, { data: { changed: 'once' } });
    await page.goto(keyUrl(second, 'calm'));
    await page.getByText('updated').first().waitFor();
    await eventually(async () => expect(await state()).toBe('paused'));
    await page.getByText('when its pause ends').waitFor();

    await page.goto(`${second.url}/dashboard/controllers/moody`);
    const pauses = page.getByRole('region', { name: 'Pauses' });
    await pauses.getByRole('link', { name: `the key ${namespace}/calm` }).click();
    const runs = await page.locator('.timeline > li').count();
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await page.getByText(`Resumed: the key ${namespace}/calm.`).waitFor();
    await eventually(async () => {
      await page.reload();
      expect(await state()).toBe('at rest');
      expect(await page.locator('.timeline > li').count()).toBeGreaterThan(runs);
    });
    await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
  });

  it('that its annotation pauses says so, with the command that ends it, beside the button', async ({ world }) => {
    const annotate = (value: string | null): Promise<unknown> =>
      world.cluster.patch(
        configMaps,
        { namespace, name: 'even' },
        { metadata: { annotations: { 'levelhook.dev/paused': value } } },
      );
    await annotate('true');
    await eventually(async () => {
      await page.goto(keyUrl(first, 'even'));
      expect(await state()).toBe('paused');
    });
    await page.getByText('its object has the annotation').first().waitFor();
    await page.getByText('levelhook.dev/paused-').waitFor();
    expect(await page.getByRole('button', { name: 'Pause', exact: true }).count()).toBe(1);
    await annotate(null);
    await eventually(async () => {
      await page.reload();
      expect(await state()).toBe('at rest');
    });
  });
});

describe('gateways', () => {
  it('show the progress of a replay that another one does', async () => {
    await page.goto(`${first.url}/dashboard/errors`);
    await page.getByRole('row').filter({ hasText: 'no disk' }).getByRole('button', { name: 'Replay' }).click();
    await page.getByText('The replay has begun.').waitFor();
    await page.goto(`${second.url}/dashboard/errors`);
    await page.getByRole('heading', { name: 'Replays' }).waitFor();
    await page
      .getByText(/the dead letters of one error, begun .* by .*queued\s+3 keys/s)
      .first()
      .waitFor();
  });

  it('show what a configured function may read, without a review', async () => {
    await page.goto(`${second.url}/dashboard/controllers/moody`);
    const rights = page.getByRole('region', { name: 'Rights' });
    expect(await rights.getByRole('row').filter({ hasText: 'v1/ConfigMap' }).innerText()).toContain(
      'a configured function may read what the gateway caches',
    );
  });

  it('list each other with their roles, until one of them stops', async () => {
    await eventually(async () => {
      await page.goto(`${first.url}/dashboard`);
      expect(await gateways()).toEqual(['follower', 'leader, this one']);
    });
    await eventually(async () => {
      await page.goto(`${second.url}/dashboard`);
      expect(await gateways()).toEqual(['follower, this one', 'leader']);
    });
    expect(await first.process.kill('SIGTERM')).toBe(0);
    // The page comes up to date by itself.
    await eventually(async () => expect(await gateways()).toEqual(['leader, this one']));
  });

  it('leave no complaint in the browser', () => {
    expect(complaints).toEqual([]);
  });
});
