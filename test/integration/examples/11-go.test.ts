import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { generateSecret, importSecret, RESULT_STREAM, sign } from '../../../src/contract/index.ts';
import { decodeResultLine, decodeResults } from '../../../src/contract/outcome-schema.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import type { Setting } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { buildGoExample, GO_EXAMPLE, goInExample, startGoExample } from '../../harness/plain-examples.ts';
import { QueueClient } from '../../harness/queue-client.ts';
import { it } from '../../harness/world.ts';

const ANNOTATION = 'example.levelhook.dev/pods';
const accounts = resource('v1', 'ServiceAccount');
const pods = resource<KubernetesObject & { spec?: object }>('v1', 'Pod');
/** More than a page of the function's lists has. */
const MANY = 620;

describe('the function in Go, behind a gateway', () => {
  let cluster: Cluster;
  let namespace: string;
  let setting: Setting;
  let url: string;
  let program: string;
  let gateway: Opened;

  it.beforeAll(async ({ world }) => {
    ({ cluster, namespace, setting } = world);
    program = await buildGoExample(world.started);
    url = await startGoExample(world.started, setting, program);
    gateway = await world.gateway([url]);
  });

  const createAccount = (name: string) =>
    cluster.create(accounts, { metadata: { namespace, name, labels: { count: 'pods' } } });
  const createPod = (name: string, serviceAccountName: string) =>
    cluster.create(pods, {
      metadata: { namespace, name },
      spec: { serviceAccountName, containers: [{ name: 'c', image: 'example.com/none' }] },
    });
  const says = (name: string, count: number, limitMs = 30_000) =>
    eventually(async () => {
      const account = await cluster.get(accounts, { namespace, name });
      expect(account?.metadata.annotations?.[ANNOTATION]).toBe(String(count));
    }, limitMs);

  it('passes its own tests', async () => {
    expect((await promisify(execFile)('gofmt', ['-l', '.'], { cwd: GO_EXAMPLE })).stdout).toBe('');
    expect((await goInExample('vet', './...')).stderr).toBe('');
    expect((await goInExample('test', '-count=1', './...')).stdout).toMatch(/^ok /m);
  });

  it('counts, and counts again when Pods come and go or the count is changed', async () => {
    await createAccount('web');
    await says('web', 0);
    await createPod('one', 'web');
    await createPod('two', 'web');
    await createPod('other', 'default');
    await says('web', 2);
    await cluster.delete(pods, { namespace, name: 'one' });
    await says('web', 1);
    await cluster.patch(accounts, { namespace, name: 'web' }, { metadata: { annotations: { [ANNOTATION]: '7' } } });
    await says('web', 1);
    expect((await cluster.get(accounts, { namespace, name: 'default' }))?.metadata.annotations).toBeUndefined();
  });

  it('reports its writes, which the gateway keeps as a barrier', async () => {
    const line = await gateway.process.line(({ msg, writes }) => msg === 'trigger' && writes === 1);
    expect(line).toMatchObject({ controller: 'pod-count', key: `${namespace}/web`, outcome: 'done' });
  });

  it('counts more Pods than a page of the cache has', async () => {
    await createAccount('many');
    for (let at = 0; at < MANY; at += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, each) => createPod(`many-${at + each}`, 'many')));
    }
    await says('many', MANY, 90_000);
  });

  it('gets several keys in a trigger', async () => {
    const names = Array.from({ length: 20 }, (_, at) => `batch-${at}`);
    const queue = new QueueClient(gateway.url, 'pod-count');
    await queue.pause();
    await Promise.all(names.map(createAccount));
    for (const name of names) {
      await eventually(async () => expect((await queue.status(`${namespace}/${name}`)).waits).not.toEqual([]));
    }
    await queue.resume();
    for (const name of names) await says(name, 0);
    const ids = gateway.process.lines
      .filter(({ msg, key }) => msg === 'trigger' && String(key).includes('/batch-'))
      .map(({ reconcileID }) => reconcileID);
    expect(new Set(ids).size).toBeLessThan(ids.length);
  });

  /** As the gateway would send it, with no cache to read. */
  async function send(id: string, { accept = 'application/json', inMs = 10_000, version = 'v1' } = {}) {
    const body = JSON.stringify({
      version,
      controller: 'pod-count',
      deadline: new Date(Date.now() + inMs).toISOString(),
      remainingSeconds: inMs / 1000,
      cache: { views: {} },
      requests: ['a', 'b'].map((name, at) => ({ namespace, name, attempt: 1, run: at + 1, reasons: [] })),
    });
    const signed = await sign([await importSecret(setting.secret)], { id, nowMs: Date.now(), body });
    return fetch(url, { method: 'POST', headers: { ...signed, accept }, body });
  }

  it.each([
    ['with a line for each key if the gateway asks for a stream', `${RESULT_STREAM}, application/json`],
    ['with a whole answer if it does not', 'application/json'],
  ])('answers a batch %s', async (_how, accept) => {
    const answer = await send(crypto.randomUUID(), { accept });
    expect(answer.status).toBe(200);
    const text = await answer.text();
    const result = { status: 'error', message: expect.stringContaining('names no cache') as string };
    if (accept === 'application/json') expect(decodeResults(JSON.parse(text), 2)).toEqual([result, result]);
    else {
      const lines = text.trim().split('\n').map(decodeResultLine);
      expect(lines).toHaveLength(2);
      for (const run of [1, 2]) expect(lines).toContainEqual({ run, result });
    }
  });

  it('runs no trigger twice, and none after its deadline', async () => {
    const id = crypto.randomUUID();
    expect((await send(id)).status).toBe(200);
    expect((await send(id)).status).toBe(409);
    expect((await send(crypto.randomUUID(), { inMs: -1 })).status).toBe(409);
  });

  it('refuses what is not signed, or signed by another, or old, or meant for another', async () => {
    const post = async (body: string, secret: string, nowMs = Date.now()): Promise<number> => {
      const headers = await sign([await importSecret(secret)], { id: crypto.randomUUID(), nowMs, body });
      return (await fetch(url, { method: 'POST', body, headers: { ...headers } })).status;
    };
    expect((await fetch(url)).status).toBe(401);
    expect(await post('{}', generateSecret())).toBe(401);
    expect(await post('{}', setting.secret, Date.now() - 600_000)).toBe(401);
    expect((await send(crypto.randomUUID(), { version: 'v2' })).status).toBe(400);
    expect(await post('{"version":"v1","controller":"another"}', setting.secret)).toBe(400);
    expect(await post(' '.repeat(5_000_000), setting.secret)).toBe(413);
  });

  it('says at its start that a secret is malformed, and does not tell it', async () => {
    const env = { ...process.env, LEVELHOOK_SIGNING_SECRETS: 'whsec_hush*hush', PORT: '0' };
    const failed = promisify(execFile)(program, [], { env }).catch((error: unknown) => error);
    const { code, stderr } = (await failed) as { code: number; stderr: string };
    expect(code).toBe(1);
    expect(stderr).toMatch(/^LEVELHOOK_SIGNING_SECRETS: .*base64\n$/);
    expect(stderr).not.toContain('hush');
  });
});
