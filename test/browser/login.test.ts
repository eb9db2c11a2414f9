import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { createSetting, startFunction, startGateway, untilReady } from '../harness/levelhook.ts';
import { LoopbackServer } from '../harness/loopback-server.ts';
import { Started } from '../harness/started.ts';
import { openBrowser } from './browser.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const CONTROLLER = 'greeting';
const OPERATOR = 'static-token-of-an-operator';
const started = new Started();
const complaints: string[] = [];
/** Pages of another site. */
let elsewhere: string;
let pages: Map<string, string>;
/** A name of this machine, as through `kubectl port-forward`: the gateway itself does not listen on loopback only. */
let url: string;
/** Of a gateway that asks for no login: a page elsewhere runs on the same machine as the browser. */
let local: string;
let page: Page;

beforeAll(async () => {
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const fn = started.keep(await startFunction(setting, 'examples/01-minimal'));
  const variables = { LEVELHOOK_HOST: '::ffff:127.0.0.1', LEVELHOOK_ADMIN_TOKENS: `ops:change:${OPERATOR}` };
  const gateway = started.keep(await startGateway(setting, [fn.url], variables));
  await untilReady(gateway.url);
  url = `http://localhost:${new URL(gateway.url).port}`;
  const other = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const ofOther = started.keep(await startFunction(other, 'examples/01-minimal'));
  const onLoopback = started.keep(await startGateway(other, [ofOther.url]));
  await untilReady(onLoopback.url);
  local = `http://localhost:${new URL(onLoopback.url).port}`;
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(pages.get(request.url ?? ''));
  });
  ({ url: elsewhere } = await started.open(new LoopbackServer(server)));
  const browser = await openBrowser();
  started.add(() => browser.close());
  page = await browser.context.newPage();
  page.on('console', (message) => {
    // The status of the login page itself is 401.
    if (message.type() === 'error' && !message.text().includes('status of 401')) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
});
beforeEach(() => {
  pages = new Map();
});
afterAll(() => started.stop());

async function pauses(of: string): Promise<unknown> {
  const answer = await fetch(`${of}/queues`, { headers: { authorization: `Bearer ${OPERATOR}` } });
  const { queues } = (await answer.json()) as { queues: { controller: string; pauses: { scope: string }[] }[] };
  const found = queues.find(({ controller }) => controller === CONTROLLER);
  // Objects of other tests may be paused by their annotation.
  return found?.pauses.filter(({ scope }) => scope === 'controller').length;
}

it.each(['light', 'dark'] as const)('axe finds nothing on the form, nor beside a problem: %s', async (colorScheme) => {
  await page.emulateMedia({ colorScheme });
  const violations = async (): Promise<unknown> => {
    // The policy of the page lets no script in: the test's own comes past it, through the protocol.
    await page.evaluate(AXE);
    return page.evaluate(async () => {
      interface Found {
        violations: { id: string; nodes: { html: string }[] }[];
      }
      const { axe } = globalThis as unknown as { axe: { run(): Promise<Found> } };
      return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
    });
  };
  await page.goto(`${url}/dashboard`);
  expect(await violations()).toEqual([]);
  await page.getByLabel('Token').fill('wrong-token');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  expect(await violations()).toEqual([]);
  await page.emulateMedia({ colorScheme: null });
});

it('the dashboard asks for a token once, and then shows the page that was asked for', async () => {
  await page.goto(`${url}/dashboard?page=1`);
  expect(await page.getByRole('heading', { name: 'Log in' }).isVisible()).toBe(true);
  await page.keyboard.type('wrong-token');
  await page.keyboard.press('Enter');
  expect(await page.getByRole('alert').innerText()).toBe('This token is not valid here.');
  await page.getByLabel('Token').fill(OPERATOR);
  await page.keyboard.press('Enter');
  await page.waitForURL(`${url}/dashboard?page=1`);
  await page.getByRole('link', { name: CONTROLLER }).first().waitFor();
  expect(await page.evaluate('document.cookie')).toBe('');
  expect(complaints).toEqual([]);
});

it('the dashboard shows the page behind a link on another site, without a second login', async () => {
  pages.set('/', `<a href="${url}/dashboard?from=elsewhere">look</a>`);
  await page.goto(elsewhere);
  await page.getByRole('link').click();
  await page.waitForURL(`${url}/dashboard?from=elsewhere`);
  await page.getByRole('link', { name: CONTROLLER }).first().waitFor();
});

describe.each([
  ['a session', () => url, 401],
  ['no login, on loopback,', () => local, 403],
])('of another site, at a gateway with %s', (_what, gatewayUrl, status) => {
  const path = `/queues/${CONTROLLER}/pause`;

  it.each([
    ['a form', 'application/x-www-form-urlencoded'],
    ['a form that looks like JSON', 'text/plain'],
  ])('%s changes nothing', async (_form, type) => {
    const action = gatewayUrl() + path;
    const field = `<input name='{"scope":"controller","x":"' value='"}'>`;
    pages.set('/', `<form method="post" action="${action}" enctype="${type}">${field}<button>go</button></form>`);
    await page.goto(elsewhere);
    const [answer] = await Promise.all([page.waitForResponse(action), page.getByRole('button').click()]);
    expect(answer.status()).toBe(status);
    expect(await pauses(gatewayUrl())).toBe(0);
  });

  it('a script changes nothing, and reads nothing', async () => {
    await page.goto(elsewhere);
    const outcome = await page.evaluate(
      async ([target, paused]) => {
        const json = { 'content-type': 'application/json' };
        const body = '{"scope":"controller"}';
        const attempts: [string, RequestInit][] = [
          [`${target}/queues`, { credentials: 'include' }],
          [`${target}${paused}`, { method: 'POST', credentials: 'include', headers: json, body }],
          [`${target}${paused}`, { method: 'POST', credentials: 'include', mode: 'no-cors', body }],
        ];
        const results: string[] = [];
        for (const [to, options] of attempts) {
          const answer = await fetch(to, options).catch(() => undefined);
          results.push(answer === undefined ? 'blocked' : `${answer.type} ${await answer.text()}`.trim());
        }
        return results;
      },
      [gatewayUrl(), path],
    );
    expect(outcome).toEqual(['blocked', 'blocked', 'opaque']);
    expect(await pauses(gatewayUrl())).toBe(0);
  });
});
