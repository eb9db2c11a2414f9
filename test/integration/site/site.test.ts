import { readFileSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildSite } from '../../../infra/site/site.ts';
import { openBrowser } from '../../browser/browser.ts';
import { Started } from '../../harness/started.ts';

// The site as a reader sees it. SITE_SCREENSHOTS=FOLDER keeps what the browser showed.

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SCREENSHOTS = process.env['SITE_SCREENSHOTS'];
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.txt': 'text/plain',
  '.json': 'application/json',
};

const started = new Started();
const failed: string[] = [];
let out: string;
let url: string;
let page: Page;

beforeAll(async () => {
  out = await mkdtemp(join(tmpdir(), 'levelhook-site-'));
  // A version of the site is in a folder of its own.
  await buildSite({ out, base: '/main/' });
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site');
    const path = pathname.replace(/^\/main\//, '').replace(/(^|\/)$/, '$1index.html');
    readFile(join(out, decodeURI(path))).then(
      (body) => response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'font/woff2' }).end(body),
      () => response.writeHead(404).end(),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  started.add(async () => server.close().closeAllConnections());
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/main/`;
  const browser = await openBrowser();
  started.add(() => browser.close());
  page = await browser.context.newPage();
  page.on('response', (response) => {
    if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
  });
  page.on('pageerror', (error) => failed.push(String(error)));
}, 600_000);

afterAll(() => started.stop());

async function shot(name: string): Promise<void> {
  if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

async function violations(): Promise<string> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  });
  return found.join('\n');
}

it.each([
  ['', 'light', 1280],
  ['', 'dark', 1280],
  ['', 'light', 390],
  ['guide/', 'light', 1280],
  ['guide/finalizers.html', 'dark', 390],
  ['reference/settings.html', 'light', 390],
] as const)('the page "%s" is readable: %s, %i wide', async (path, colorScheme, width) => {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  await page.setViewportSize({ width, height: 900 });
  await page.goto(url + path);
  await page.locator('main h1').first().waitFor();
  await shot(`${path.replaceAll(/\W/g, '-') || 'first'}-${colorScheme}-${width}`);
  expect(await violations()).toBe('');
  expect(await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')).toBe(false);
});

it('the search finds the chapter on finalizers', async () => {
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.goto(url);
  await page.getByRole('button', { name: 'Search' }).first().click();
  await page.locator('.VPLocalSearchBox input').fill('finalizer');
  const result = page.locator('.VPLocalSearchBox .result').first();
  await result.waitFor();
  await shot('search');
  const titles = await page.locator('.VPLocalSearchBox .result').allInnerTexts();
  expect(titles.join('\n')).toContain('Finalizers and outside systems');
  await result.click();
  await page.waitForURL(/\.html/);
});

it('the reference has the exports of the SDK and the help of the commands', async () => {
  await page.goto(`${url}reference/commands.html`);
  await page.getByRole('heading', { name: 'levelhook dev' }).waitFor();
  await page.goto(url);
  await page.getByRole('link', { name: 'Reference', exact: true }).first().click();
  await page.getByText('API', { exact: true }).first().waitFor();
});

it('programs that read documents find all pages in llms.txt', async () => {
  const text = await (await fetch(`${url}llms.txt`)).text();
  expect(text).toMatch(/^# levelhook\n\n> Write Kubernetes controllers/);
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link);
  expect(links.length).toBeGreaterThan(60);
  for (const link of links) {
    expect((await fetch(new URL(link, url))).status, link).toBe(200);
    expect(link).toMatch(/^\/main\//);
  }
});

it('nothing that a page asked for was missing', () => {
  expect(failed).toEqual([]);
});
