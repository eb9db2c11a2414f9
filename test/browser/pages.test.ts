import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import { openBrowser } from './browser.ts';
import { createMoody, HOSTILE, startScene, untilDead } from './scene.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const namespace = uniqueName('pages');
const started = new Started();
const complaints: string[] = [];
let cluster: Cluster;
let url: string;
let page: Page;

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  cluster = await started.cluster(kubeconfig, namespace);
  const setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
  const scene = await startScene(setting, { cluster, namespace, started });
  url = scene.gateway.url;
  await untilDead(url, 5);
  const browser = await openBrowser();
  started.add(() => browser.close());
  page = await browser.context.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
});

afterAll(() => started.stop());

const moodyUrl = (rest = ''): string => `${url}/dashboard/controllers/moody${rest}`;
const keyPath = (name: string): string => `/keys/${namespace}/${name}`;
/** The word for the state of a page's key. */
const state = (): Promise<string> => page.locator('h1 .state').innerText();

/** What axe finds on the page: a line for each rule. */
async function violations(): Promise<string> {
  // The policy of the page lets no script in: the test's own comes past it, through the protocol.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } };
    interface Violation {
      id: string;
      nodes: { html: string }[];
    }
    const { violations } = await axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  });
  return found.join('\n');
}

describe('overview', () => {
  it('shows controllers, cache, functions and the role of the gateway', async () => {
    await page.goto(url);
    expect(new URL(page.url()).pathname).toBe('/dashboard');
    for (const name of ['Controllers', 'Cache', 'Functions', 'Gateway']) {
      await page.getByRole('heading', { name }).waitFor();
    }
    const moody = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'moody', exact: true }) });
    expect(await moody.first().innerText()).toContain('5 dead letters');
    expect(await page.getByText('single gateway').count()).toBe(1);
  });

  it('cuts no column of its tables off, however wide the window is', async () => {
    await page.goto(`${url}/dashboard`);
    for (const width of [1600, 1350, 1200, 1024, 800, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const cut = await page
        .locator('.scroll')
        .evaluateAll((regions) =>
          regions
            .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
            .map((region) => `${region.ariaLabel}: ${region.scrollWidth} in ${region.clientWidth}`),
        );
      expect(cut, `at ${width}`).toEqual([]);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('keeps its filter in the URL', async () => {
    await page.goto(`${url}/dashboard?name=greet`);
    expect(await page.getByRole('link', { name: 'moody', exact: true }).count()).toBe(0);
    await page.getByLabel('Name contains').fill('nothing of the kind');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/name=nothing/);
    await page.getByText('has such a name').waitFor();
    await page.getByRole('link', { name: 'Show all' }).click();
    await page.getByRole('link', { name: 'moody', exact: true }).first().waitFor();
  });

  it('comes up to date by itself, without losing the focus', async () => {
    await page.goto(`${url}/dashboard`);
    await page.getByRole('link', { name: 'greeting' }).first().focus();
    await page.evaluate('globalThis.isSamePage = true');
    await createMoody(cluster, { namespace, name: 'late' }, { terminal: 'too late' });
    const row = page.locator('#controller-moody');
    await row.getByText('6 dead letters').waitFor();
    expect(await page.evaluate<boolean>('globalThis.isSamePage')).toBe(true);
    expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('greeting');
    await cluster.delete(configMaps, { namespace, name: 'late' });
    await untilDead(url, 5);
  });
});

describe('a controller', () => {
  it('lists its keys by what they wait for, with a search that stands in the URL', async () => {
    await page.goto(moodyUrl());
    await page.getByRole('navigation', { name: 'Lists of keys' }).getByRole('link', { name: /^Dead/ }).click();
    await page.waitForURL(/list=dead/);
    await page.getByLabel('Name contains').fill('broken');
    await page.getByLabel('Name contains').press('Enter');
    await page.waitForURL(/name=broken/);
    expect(await page.locator('tbody').first().getByRole('row').count()).toBe(3);
    await page.goto(moodyUrl('?list=timers'));
    const row = page.getByRole('row').filter({ hasText: `${namespace}/later` });
    expect(await row.innerText()).toContain('requeued');
    await page.goto(moodyUrl('?list=waiting'));
    expect(
      await page
        .getByRole('row')
        .filter({ hasText: `${namespace}/halted` })
        .innerText(),
    ).toContain('paused');
  });

  it("shows BullMQ's jobs, and where a tool for BullMQ finds them", async () => {
    await page.goto(moodyUrl());
    const panel = page.locator('section', { has: page.getByRole('heading', { name: 'In BullMQ' }) });
    await panel.getByText('none: every key that is ready has a slot').waitFor();
    const [name = '', prefix = ''] = await panel.locator('code').allInnerTexts();
    const connection = new Redis(inject('redisUrl'), { maxRetriesPerRequest: null });
    started.add(() => connection.quit());
    const queue = new Queue(name, { connection, prefix });
    started.add(() => queue.close());
    const job = await queue.add('of another program', {}, { delay: 3_600_000 });
    await panel.getByText('1 delayed', { exact: true }).waitFor();
    await job.remove();
    await panel.getByText('none: every key that is ready has a slot').waitFor();
  });

  it('is paused and resumed, after a question', async () => {
    await page.goto(moodyUrl());
    await page.locator('summary', { hasText: /^Pause/ }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText('Paused: the controller.').waitFor();
    // The dead letters stay in sight.
    expect(await state()).toBe('dead letters');
    await page.locator('h1').getByText('paused since').waitFor();
    await page.locator('h1').getByRole('button', { name: 'Resume' }).click();
    await page.getByText('Resumed: the controller.').waitFor();
    expect(await page.locator('h1').innerText()).not.toContain('paused');
  });

  it('pauses a namespace: its keys wait and say so, until it is resumed', async () => {
    await page.goto(moodyUrl());
    await page.getByRole('textbox', { name: 'Namespace', exact: true }).fill(namespace);
    await page.getByRole('button', { name: 'Pause namespace' }).click();
    await page.getByText(`Paused: the namespace ${namespace}.`).waitFor();

    await page.goto(moodyUrl(keyPath('calm')));
    await page.getByRole('button', { name: 'Reconcile now' }).click();
    await page.getByText('1 key queued.').waitFor();
    await eventually(async () => {
      await page.reload();
      expect(await state()).toBe('paused');
    });
    await page.getByRole('button', { name: `Resume namespace ${namespace}` }).click();
    await page.getByText(`Resumed: the namespace ${namespace}.`).waitFor();
    await eventually(async () => {
      await page.reload();
      expect(await state()).toBe('at rest');
    });
  });

  it('reconciles all keys, those of a namespace, and those whose rows are marked', async () => {
    await page.goto(moodyUrl());
    await page.locator('summary', { hasText: 'Reconcile all' }).click();
    await page.getByRole('button', { name: 'Reconcile all' }).click();
    await page.getByText(/\d+ keys queued at low priority/).waitFor();
    await page.getByRole('textbox', { name: 'With labels' }).fill(`moody=${namespace}`);
    await page.getByRole('button', { name: 'Reconcile these' }).click();
    await page.getByText(/\d+ keys queued at low priority/).waitFor();
    await page.getByRole('button', { name: 'Reconcile these' }).click();
    await page.getByText('Nothing was selected').waitFor();
    // All dead letters have run again, and are dead letters again.
    await untilDead(url, 5);
    await page.goto(moodyUrl('?list=timers'));
    await page.getByRole('checkbox', { name: `${namespace}/later` }).check();
    await page.getByRole('button', { name: 'Reconcile selected' }).click();
    await page.getByText('1 key queued.').waitFor();
  });

  it('shows its runs, and new ones as they end', async () => {
    await page.goto(moodyUrl('/runs'));
    await page.getByRole('row').filter({ hasText: 'is full' }).first().waitFor();
    await createMoody(cluster, { namespace, name: 'fresh' }, {});
    await page
      .getByRole('row')
      .filter({ hasText: `${namespace}/fresh` })
      .first()
      .waitFor();
    await page.getByLabel('Outcome').selectOption('dead');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/outcome=dead/);
    expect(
      await page
        .getByRole('row')
        .filter({ hasText: `${namespace}/calm` })
        .count(),
    ).toBe(0);
  });

  it('leads from a run in its list to what the function reported', async () => {
    await page.goto(moodyUrl('/runs?outcome=dead'));
    const row = page.getByRole('row').filter({ hasText: 'the disk of broken-2 is full' }).first();
    await row.getByRole('link').nth(1).click();
    await page.getByRole('heading', { name: /^Run \d+ of .*\/broken-2/ }).waitFor();
    const stack = page.getByRole('region', { name: 'Stack of its error' });
    expect(await stack.innerText()).toMatch(/^Error: the disk of broken-2 is full\n {4}at .*moody-function\.ts/);
    const log = page.getByRole('region', { name: 'What it read, wrote and logged' });
    const lines = (await log.innerText()).split('\n').map((line) => line.replace(/^\+\d+ ms /, ''));
    expect(lines[0]).toBe('info looks at its data {"name":"broken-2"}');
    expect(lines[1]).toMatch(/^cache get v1\/ConfigMap [\w-]+\/broken-2: version \d+$/);
    expect(await violations()).toBe('');
    await page.getByRole('link', { name: `${namespace}/broken-2` }).click();
    await page.waitForURL(/\/keys\//);
  });

  it('shows what the change that woke a run has made of the object, also on the page of a retry', async () => {
    const key = { namespace, name: 'changed' };
    await createMoody(cluster, key, { again: '900' });
    // Else one run has both changes as its reasons.
    await eventually(async () => {
      const runs = await fetch(`${url}/queues/moody/runs?key=${encodeURIComponent(`${namespace}/changed`)}`);
      expect(await runs.json()).toMatchObject({ runs: [{ outcome: 'requeue' }] });
    });
    await cluster.patch(configMaps, key, { data: { again: '600', fail: 'the <b>cellar</b> is wet' } });
    await untilDead(url, 6);
    await page.goto(moodyUrl(keyPath('changed')));
    await page.locator('a[href*="/runs/"]').filter({ hasText: /^run / }).first().click();
    await page.getByText('First cause').waitFor();
    const change = page.getByRole('region', { name: 'Difference' }).first();
    expect(await change.innerText()).toMatch(/again: "900"[^]*again: "600"/);
    expect(await change.locator('ins').allInnerTexts()).toContainEqual(expect.stringContaining('<b>cellar</b>'));
    expect(await page.getByText(/^by /).first().innerText()).toMatch(/^by \S+$/);
    expect(await violations()).toBe('');
    await page.setViewportSize({ width: 390, height: 800 });
    expect(await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')).toBe(false);
    await page.setViewportSize({ width: 1280, height: 800 });
    // Without its object the key succeeds.
    await cluster.delete(configMaps, key);
    await untilDead(url, 5);
  });

  it('says what wakes its keys and what its limits are', async () => {
    await page.goto(moodyUrl());
    const sources = page.getByRole('region', { name: 'Sources' });
    expect(await sources.innerText()).toContain('moody');
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
  });
});

describe('a key', () => {
  it('that fails three times becomes a dead letter, and a click runs it again', async () => {
    // A test before may have run it again.
    await eventually(async () => {
      await page.goto(moodyUrl(keyPath('broken-1')));
      expect(await state()).toBe('dead letter');
    });
    const timeline = page.getByRole('listitem').filter({ hasText: 'the disk of broken-1 is full' });
    // Three attempts with one error.
    await timeline
      .filter({ hasText: /dead letter\s+× 3/ })
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.getByText('1 dead letter replayed.').waitFor();
    await eventually(async () => {
      await page.reload();
      const runs = await page.getByRole('listitem').filter({ hasText: 'manual' }).count();
      expect(runs).toBeGreaterThan(0);
    });
  });

  it('shows its object in the cache and on the server, and how it is paused', async () => {
    await page.goto(moodyUrl(keyPath('calm')));
    await page.getByText('the cache has what the server has').waitFor();
    await page.getByText(`kubectl annotate -n ${namespace} configmap calm levelhook.dev/paused=true`).waitFor();
    await page.goto(moodyUrl(keyPath('halted')));
    expect(await state()).toBe('paused');
    await page.getByText('levelhook.dev/paused-').waitFor();
  });

  it('without an object, and one that is no name, say so', async () => {
    await page.goto(moodyUrl(keyPath('never-there')));
    await page.getByText('There is no such object, neither in the cache nor').waitFor();
    const answer = await page.goto(moodyUrl('/keys/a/b/c'));
    expect(answer?.status()).toBe(404);
    complaints.length = 0;
  });

  it('is dropped after a question', async () => {
    await page.goto(moodyUrl(keyPath('refused')));
    await page.locator('summary', { hasText: 'Drop' }).click();
    await page.getByRole('button', { name: 'Drop', exact: true }).click();
    await page.getByText('1 dead letter dropped.').waitFor();
    expect(await state()).toBe('at rest');
  });
});

describe('failing keys', () => {
  it('are grouped by error over all controllers, and a group is tried again', async () => {
    // It stays failing: its next attempt is far away.
    const data = { fail: 'the network of slow-1 is gone', retryAfter: '120' };
    await createMoody(cluster, { namespace, name: 'slow-1' }, data);
    await eventually(async () => {
      await page.goto(`${url}/dashboard/errors?list=failing`);
      const row = page.getByRole('row').filter({ hasText: 'the network of slow-1 is gone' });
      await row.getByRole('button', { name: 'Reconcile now' }).click({ timeout: 5000 });
      await page.getByText('1 key queued.').waitFor({ timeout: 5000 });
    });
    await cluster.delete(configMaps, { namespace, name: 'slow-1' });
    await eventually(async () => {
      await page.goto(`${url}/dashboard/errors?list=failing`);
      expect(await page.getByText('slow-1').count()).toBe(0);
    });
  });
});

describe('dead letters', () => {
  it('are grouped by error, and a group is replayed with progress', async () => {
    await page.goto(`${url}/dashboard/errors`);
    await page.getByRole('row').filter({ hasText: 'is full' }).getByRole('button', { name: 'Replay' }).click();
    await page.getByText('The replay has begun.').waitFor();
    await page.getByRole('heading', { name: 'Replays' }).waitFor();
    await page.getByText('the dead letters of one error').first().waitFor();
    await page
      .getByText(/queued\s+\d+ keys?/)
      .first()
      .waitFor();
  });

  it('are all replayed after a question', async () => {
    await eventually(async () => {
      await page.goto(`${url}/dashboard/errors`);
      await page.getByText('Replay all').first().waitFor({ timeout: 1000 });
    });
    await page.locator('summary', { hasText: 'Replay all' }).click();
    await page.getByRole('button', { name: 'Replay all' }).click();
    await page.getByText('The replays of 1 controller have begun.').waitFor();
  });
});

describe('the cache', () => {
  it('shows objects by kind, namespace and label, as YAML', async () => {
    await page.goto(`${url}/dashboard/views`);
    await page.getByRole('link', { name: 'v1/ConfigMap' }).click();
    await page.getByLabel('Namespace').fill(namespace);
    await page.getByLabel('Labels').fill('greet=true');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/labels=greet/);
    expect(await page.getByRole('link', { name: `${namespace}/` }).count()).toBe(1);
    await page.getByRole('link', { name: `${namespace}/ann` }).click();
    await page.getByText('name: Ann').waitFor();
  });
});

it('a search leads to an object by its name, and its key to the object that it owns', async () => {
  await page.goto(`${url}/dashboard`);
  const box = page.getByRole('searchbox', { name: 'Search controllers and objects' });
  await box.fill(`${namespace}/ann`);
  await box.press('Enter');
  await page.waitForURL(/search\?q=/);
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: `${namespace}/ann`, exact: true }) });
  await row.getByRole('link', { name: 'greeting' }).click();
  await page.waitForURL(new RegExp(`greeting${keyPath('ann')}$`));
  const around = page.locator('.tree');
  await around.getByText(`${namespace}/ann-greeting`).waitFor();
  expect(await around.getByText(`${namespace}/ann`, { exact: true }).getAttribute('aria-current')).toBe('true');
  await page.getByText('No Event is on record').waitFor();
});

it('the keys of all objects are one tab of a controller', async () => {
  await page.goto(moodyUrl());
  await page.getByRole('navigation', { name: 'Lists of keys' }).getByRole('link', { name: 'All' }).click();
  await page.waitForURL(/list=all/);
  await page.getByRole('searchbox', { name: 'Namespace' }).fill(namespace);
  await page.getByRole('searchbox', { name: 'Namespace' }).press('Enter');
  await page.waitForURL(/list=all&namespace=/);
  const stateOf = (name: string): Promise<string> =>
    page
      .getByRole('row')
      .filter({ has: page.getByRole('link', { name: `${namespace}/${name}`, exact: true }) })
      .locator('.state')
      .innerText();
  // A test before may have run `broken-1` again.
  await eventually(async () => {
    await page.reload();
    const states = await Promise.all(['calm', 'halted', 'broken-1', 'ann'].map(stateOf));
    expect(states).toEqual(['at rest', 'paused', 'dead letter', 'not selected']);
  });
  await page.getByLabel('Name contains').fill('broken');
  await page.getByLabel('Name contains').press('Enter');
  await page.waitForURL(/list=all&namespace=[^&]+&name=broken/);
  expect(await page.locator('tbody').first().getByRole('row').count()).toBe(3);
});

it('texts from outside stay text on every page', async () => {
  for (const path of [keyPath('hostile'), '?list=dead', '/runs', `?list=dead&name=${encodeURIComponent(HOSTILE)}`]) {
    await page.goto(moodyUrl(path));
    expect(await page.title(), path).toContain('levelhook');
    expect(await page.locator('main img, main script').count(), path).toBe(0);
  }
  await page.goto(moodyUrl(keyPath('hostile')));
  expect(await page.getByText(HOSTILE).count()).toBeGreaterThan(0);
});

it('the dashboard works without JavaScript', async () => {
  const context = await page.context().browser()?.newContext({ javaScriptEnabled: false });
  if (!context) throw new Error('there is no browser');
  const plain = await context.newPage();
  await plain.goto(moodyUrl(keyPath('mild')));
  await plain.getByRole('button', { name: 'Reconcile now' }).click();
  await plain.getByText('1 key queued.').waitFor();
  await context.close();
});

it('the dashboard can be used with the keyboard alone', async () => {
  await page.goto(`${url}/dashboard`);
  await page.keyboard.press('Tab');
  expect(await page.evaluate<string>('document.activeElement.textContent')).toBe('Skip to the content');
  await page.keyboard.press('Enter');
  expect(await page.evaluate<string>('document.activeElement.id')).toBe('content');
  await page.goto(moodyUrl());
  await page.locator('summary', { hasText: 'Reconcile all' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Reconcile all' }).waitFor();
  await page.keyboard.press('Escape');
  expect(await page.locator('details.confirm[open]').count()).toBe(0);
});

it('axe finds nothing on the overview while a key runs', async () => {
  await createMoody(cluster, { namespace, name: 'slow' }, { seconds: '10' });
  await page.goto(`${url}/dashboard`);
  await page.locator('#controller-moody a[href$="list=running"]').waitFor();
  expect(await violations()).toBe('');
});

it('axe finds nothing on any page, and none is too wide for a telephone', async () => {
  for (const path of [
    '',
    '?name=none',
    '/controllers/moody?list=dead',
    '/controllers/moody?list=queued',
    '/controllers/moody?list=all',
    `/controllers/greeting${keyPath('ann')}`,
    '/search',
    '/search?q=ann',
    '/controllers/moody/runs',
    `/controllers/moody${keyPath('hostile')}`,
    `/controllers/moody${keyPath('halted')}`,
    '/errors',
    '/views',
    `/views/objects?view=v1%2FConfigMap&namespace=${namespace}`,
    `/views/object?view=v1%2FConfigMap&key=${namespace}%2Fann`,
  ]) {
    await page.goto(`${url}/dashboard${path}`);
    expect(await violations(), path).toBe('');
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const isTooWide = await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth');
      expect(isTooWide, `${path} at ${width}`).toBe(false);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  }
});

it('the browser had nothing to complain about on any page of the dashboard', () => {
  expect(complaints).toEqual([]);
});
