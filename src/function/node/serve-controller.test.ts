import { describe, expect, it } from 'vitest';
import { generateSecret, importSecret, sign, type Trigger } from '../../contract/index.ts';
import { resource, UserError } from '../../core/index.ts';
import { controller } from '../controller.ts';
import { validatingWebhook } from '../webhooks/index.ts';
import { controllerApp } from './serve-controller.ts';

const secret = generateSecret();
const environment = { LEVELHOOK_SIGNING_SECRETS: secret };
const named = (name: string) => controller({ name, for: resource('v1', 'Pod') }).reconcile(async () => {});
const [one, two] = [named('one'), named('two')];

/** Sends a signed request to a path. Returns the status, and the name in the description. */
async function ask(app: ReturnType<typeof controllerApp>, path: string, by = secret): Promise<[number, unknown]> {
  const headers = await sign([await importSecret(by)], { id: 'id', nowMs: Date.now(), body: '' });
  const answer = await app.request(path, { headers: { ...headers } });
  return [answer.status, answer.ok ? ((await answer.json()) as { name: string }).name : undefined];
}

describe('serveController', () => {
  it('serves one controller at /', async () => {
    const app = controllerApp(one, environment);
    expect(await ask(app, '/')).toEqual([200, 'one']);
    expect(await ask(app, '/', generateSecret())).toEqual([401, undefined]);
  });

  it('serves each controller of a list at its name, and refuses a wrong signature at each', async () => {
    const app = controllerApp([one, two], environment);
    expect(await ask(app, '/one')).toEqual([200, 'one']);
    expect(await ask(app, '/two')).toEqual([200, 'two']);
    expect(await ask(app, '/two', generateSecret())).toEqual([401, undefined]);
    expect(await ask(app, '/')).toEqual([404, undefined]);
  });

  it('runs a trigger at the path of its controller, and refuses that of another one there', async () => {
    const app = controllerApp([one, two], environment);
    const body = JSON.stringify({
      version: 'v1',
      controller: 'two',
      deadline: new Date(Date.now() + 15_000).toISOString(),
      remainingSeconds: 15,
      cache: { views: {} },
      requests: [{ namespace: 'a', name: 'b', attempt: 1, run: 1, reasons: [] }],
    } satisfies Trigger);
    const headers = await sign([await importSecret(secret)], { id: 'id', nowMs: Date.now(), body });
    const post = (path: string) => app.request(path, { method: 'POST', body, headers: { ...headers } });
    expect(await (await post('/two')).json()).toMatchObject({ results: [{ status: 'done' }] });
    expect((await post('/one')).status).toBe(400);
  });

  it('takes reviews without a signature only if told to, of a list at the path of each controller', async () => {
    const status = async (of: typeof one | (typeof one)[], path: string, variables = {}) =>
      (await controllerApp(of, { ...environment, ...variables }).request(path, { method: 'POST', body: '{}' })).status;
    const hooked = {
      ...one,
      webhooks: [validatingWebhook({ name: 'w', for: resource('v1', 'Pod') }).validate(() => {})],
    };
    const told = { LEVELHOOK_UNSIGNED_REVIEWS: 'true' };
    expect(await status(hooked, '/webhooks/w', told)).toBe(400);
    expect(await status(hooked, '/webhooks/w')).toBe(404);
    expect(await status([hooked, two], '/one/webhooks/w', told)).toBe(400);
    expect(await status([hooked, two], '/two/webhooks/w', told)).toBe(404);
  });

  it.each([', ', ' ', ','])('takes two secrets while one is rotated, separated by %j', async (separator) => {
    const secrets = [generateSecret(), secret].join(separator);
    expect(await ask(controllerApp(one, { LEVELHOOK_SIGNING_SECRETS: secrets }), '/')).toEqual([200, 'one']);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['no secret', () => controllerApp(one, {}), /LEVELHOOK_SIGNING_SECRETS is not set/],
    ['a malformed secret', () => controllerApp(one, { LEVELHOOK_SIGNING_SECRETS: 'x' }), /secret 1 of 1 is malformed/],
    ['no controller', () => controllerApp([], environment), /was given no controller/],
    [
      'a wrong Redis URL',
      () => controllerApp(one, { ...environment, REDIS_URL: 'http://a' }),
      /^The Redis URL of this function is wrong: must begin with redis:/,
    ],
    [
      'Sentinels',
      () => controllerApp(one, { ...environment, REDIS_URL: 'redis+sentinel://:hidden@a/m' }),
      /^The Redis URL of this function names Sentinels: a function reads from one server, or through the gateway/,
    ],
    ['two of one name', () => controllerApp([one, one], environment), /two controllers have the name one/],
  ])('%s: one sentence', (_, make, message) => {
    expect(make).toThrow(UserError);
    expect(make).toThrow(message);
  });
});
