import { request } from 'node:http';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { greeting } from '../../functions/examples/01-minimal/greeting.ts';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { openFunction } from '../harness/opened.ts';
import { it } from '../harness/world.ts';
import { openBrowser } from './browser.ts';

/** The example and not replicaset: that one would work on the ReplicaSets of every other test. */
const QUEUE = 'greeting';

const complaints: string[] = [];
let url: string;
let page: Page;

it.beforeAll(async ({ world }) => {
  const { cluster, namespace, setting, started } = world;
  const fn = started.keep(await openFunction(setting, [greeting]));
  ({ url } = await world.gateway([`${fn.url}/${QUEUE}`]));
  const metadata = { namespace, name: 'ann', labels: { greet: 'true' } };
  await cluster.create(configMaps, { metadata, data: { name: 'Ann' } });
  const browser = await openBrowser();
  started.add(() => browser.close());
  page = await browser.context.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
});

it('the BullMQ board shows the queue of each controller, without a complaint of the browser', async () => {
  await page.goto(url);
  expect(new URL(page.url()).pathname).toBe('/dashboard');
  await page.getByRole('link', { name: 'BullMQ' }).click();
  expect(await page.title()).toContain('levelhook');
  await page.getByRole('link', { name: QUEUE }).first().waitFor();
  await page.screenshot({ path: join(tmpdir(), 'levelhook-bullmq.png') });

  await page.getByRole('link', { name: QUEUE }).first().click();
  await page.waitForURL(/\/dashboard\/bullmq\/queue\//);
  await page.getByRole('heading', { name: QUEUE }).first().waitFor();
  await page.getByText('No latest jobs in this queue.').waitFor();
  await page.screenshot({ path: join(tmpdir(), 'levelhook-bullmq-queue.png') });
  expect(complaints).toEqual([]);
});

it('the BullMQ board offers nothing that writes', async () => {
  const offered = await page
    .getByRole('button')
    .evaluateAll((buttons) =>
      buttons.map(
        (button) => `${button.textContent} ${button.getAttribute('title')} ${button.getAttribute('aria-label')}`,
      ),
    );
  expect(
    offered.filter((text) => /pause|resume|clean|retry|promote|obliterate|empty|add|remove|delete/i.test(text)),
  ).toEqual([]);
});

it('the BullMQ board refuses every write', async () => {
  const { queues } = (await (await fetch(`${url}/dashboard/bullmq/api/queues`)).json()) as {
    queues: { name: string }[];
  };
  const name = encodeURIComponent(queues[0]?.name ?? '');
  expect(name).not.toBe('');
  const queue = `${url}/dashboard/bullmq/api/queues/${name}`;
  const writes: [string, string][] = [
    ['PUT', '/pause'],
    ['PUT', '/resume'],
    ['PUT', '/empty'],
    ['PUT', '/obliterate'],
    ['PUT', '/promote'],
    ['POST', '/add'],
    ['PUT', '/clean/completed'],
    ['PUT', '/retry/failed'],
    ['PUT', '/concurrency'],
    ['PUT', '/rate-limit'],
    ['PUT', '/1/retry'],
    ['PUT', '/1/clean'],
    ['PUT', '/1/promote'],
    ['PATCH', '/1/update-data'],
    ['DELETE', '/1'],
  ];
  const answers = await Promise.all(
    writes.map(async ([method, path]) => {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ name: 'x', data: { key: 'x' }, options: {}, concurrency: 1 });
      return [method, path, (await fetch(queue + path, { method, headers, body })).status];
    }),
  );
  for (const path of ['/dashboard/bullmq/api/queues/pause', '/dashboard/bullmq/api/queues/resume']) {
    answers.push(['PUT', path, (await fetch(url + path, { method: 'PUT' })).status]);
  }
  expect(answers.filter(([, , status]) => status !== 405 && status !== 403)).toEqual([]);
});

it('the BullMQ board answers only to a name of this machine', async () => {
  // A page elsewhere whose name was rebound to loopback: the browser sends that name. (fetch would not let us.)
  const asked = (path: string, host: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const sent = request(url + path, { headers: { host } }, (answer) => resolve(answer.resume().statusCode));
      sent.on('error', reject).end();
    });
  const { port } = new URL(url);
  for (const path of ['/dashboard', '/dashboard/', '/dashboard/bullmq/api/queues', '/dashboard/bullmq/static/x']) {
    expect(await asked(path, `evil.example:${port}`), path).toBe(403);
    expect(await asked(path, 'localhost.evil.example'), path).toBe(403);
  }
  expect(await asked('/dashboard', `localhost:${port}`)).toBe(200);
});

it('keys run while the BullMQ board is used', async ({ world: { cluster, namespace } }) => {
  await eventually(async () => {
    const made = await cluster.get(configMaps, { namespace, name: 'ann-greeting' });
    expect(made?.data).toEqual({ text: 'Hello, Ann!' });
  });
});
