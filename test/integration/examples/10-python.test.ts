import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { decodeResultLine, decodeResults } from '../../../src/contract/outcome-schema.ts';
import { generateSecret, importSecret, RESULT_STREAM, sign } from '../../../src/contract/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import type { Setting } from '../../harness/levelhook.ts';
import type { Opened } from '../../harness/opened.ts';
import { PYTHON_EXAMPLE, startPythonExample } from '../../harness/plain-examples.ts';
import { it } from '../../harness/world.ts';

describe('the function in Python, behind a gateway', () => {
  let setting: Setting;
  let url: string;
  let gateway: Opened;

  it.beforeAll(async ({ world }) => {
    ({ setting } = world);
    url = await startPythonExample(world.started, setting);
    gateway = await world.gateway([url]);
  });

  it('counts, and counts again when the text or the result changes', async ({ world: { cluster, namespace } }) => {
    const key = { namespace, name: 'text' };
    const counted = { namespace, name: 'text-words' };
    const says = (words: string) =>
      eventually(async () => expect((await cluster.get(configMaps, counted))?.data).toEqual({ words }));
    const data = { a: 'to be or', b: 'not to be' };
    await cluster.create(configMaps, { metadata: { ...key, labels: { count: 'words' } }, data });
    await says('6');
    await cluster.patch(configMaps, key, { data: { a: 'to be' } });
    await says('5');
    await cluster.patch(configMaps, counted, { data: { words: 'many' } });
    await says('5');
    await cluster.delete(configMaps, counted);
    await says('5');
  });

  it('reports its writes, which the gateway keeps as a barrier', async ({ world: { namespace } }) => {
    const line = await gateway.process.line(({ msg, writes }) => msg === 'trigger' && writes === 1);
    expect(line).toMatchObject({ controller: 'word-count', key: `${namespace}/text`, outcome: 'done' });
  });

  it('is tried again when the apiserver refuses', async ({ world: { cluster, namespace } }) => {
    const long = { namespace, name: 'x'.repeat(250) };
    await cluster.create(configMaps, { metadata: { ...long, labels: { count: 'words' } } });
    const line = await gateway.process.line(({ attempt, key }) => attempt === 2 && key === `${namespace}/${long.name}`);
    expect(line).toMatchObject({ outcome: 'error', error: expect.stringContaining('422') });
    await cluster.delete(configMaps, long);
  });

  it.each([
    ['with a line for each key if the gateway asks for a stream', `${RESULT_STREAM}, application/json`],
    ['with a whole answer if it does not', 'application/json'],
  ])('answers a batch %s', async (_how, accept) => {
    const body = JSON.stringify({
      version: 'v1',
      controller: 'word-count',
      deadline: new Date(Date.now() + 10_000).toISOString(),
      remainingSeconds: 10,
      cache: { views: {} },
      requests: ['none', '%'].map((name, at) => ({ namespace: 'default', name, attempt: 1, run: at + 1, reasons: [] })),
    });
    const keys = [await importSecret(setting.secret)];
    const signed = await sign(keys, { id: crypto.randomUUID(), nowMs: Date.now(), body });
    const answer = await fetch(url, { method: 'POST', headers: { ...signed, accept }, body });
    expect(answer.status).toBe(200);
    const text = await answer.text();
    const results = [
      { status: 'done', writes: [] },
      {
        status: 'error',
        message: expect.any(String) as string,
        writes: [],
        stack: expect.stringMatching(/File ".*levelhook\.py"/) as string,
      },
    ];
    if (accept === 'application/json') expect(decodeResults(JSON.parse(text), 2)).toEqual(results);
    else {
      const lines = text.trim().split('\n').map(decodeResultLine);
      expect(lines).toHaveLength(2);
      for (const [at, result] of results.entries()) expect(lines).toContainEqual({ run: at + 1, result });
    }
  });

  it('refuses what is not signed, or signed by another, or old, or meant for another', async () => {
    const post = async (body: string, secret: string, nowMs = Date.now()): Promise<number> => {
      const headers = await sign([await importSecret(secret)], { id: 'msg', nowMs, body });
      return (await fetch(url, { method: 'POST', body, headers: { ...headers } })).status;
    };
    expect((await fetch(url)).status).toBe(401);
    expect(await post('{}', generateSecret())).toBe(401);
    expect(await post('{}', setting.secret, Date.now() - 600_000)).toBe(401);
    expect(await post('{"version":"v2"}', setting.secret)).toBe(400);
    expect(await post('{"version":"v1","controller":"another"}', setting.secret)).toBe(400);
  });

  it('says at its start that a secret is malformed, and does not tell it', async () => {
    const env = { ...process.env, LEVELHOOK_SIGNING_SECRETS: 'whsec_hush*hush', PORT: '0' };
    const failed = promisify(execFile)('python3', [PYTHON_EXAMPLE], { env }).catch((error: unknown) => error);
    const { code, stderr } = (await failed) as { code: number; stderr: string };
    expect(code).toBe(1);
    expect(stderr).toMatch(/^LEVELHOOK_SIGNING_SECRETS: .*base64\n$/);
    expect(stderr).not.toContain('hush');
  });
});
