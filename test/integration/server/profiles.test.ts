import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createAdaptorServer } from '@hono/node-server';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { CONTRACT_VERSION, generateSecret, importSecret, LEVELHOOK_HEADER, sign } from '../../../src/contract/index.ts';
import { PROFILE_PATH, type ProfileRequest } from '../../../src/contract/node/profile-request.ts';
import { resource, resourcePath, silentLogger } from '../../../src/core/index.ts';
import { controller, createFunctionApp } from '../../../src/function/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  startFunctionProcess,
  startGateway,
  uniqueName,
  untilReady,
} from '../../harness/levelhook.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { TestProcess } from '../../harness/process.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('profiles');
const started = new Started();
const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
const STATIC = { reader: 'static-token-of-a-reader', operator: 'static-token-of-an-operator' };
const SELF = PROFILE_PATH;
const BUSY = `${PROFILE_PATH}/controllers/busy`;

let cluster: Cluster;
let functions: Listening;
let gateway: Listening;
let directory: string;

/** A function as any platform serves it: its app, and nothing of Node. @param profile what it says to be one. */
async function startApp(name: string, profile?: string): Promise<string> {
  const app = createFunctionApp(
    controller({ name, for: configMaps }).reconcile(async () => {}),
    { secrets: [setting.secret], logger: silentLogger },
  );
  const fetch = (request: Request): Response | Promise<Response> =>
    profile !== undefined && request.method === 'POST'
      ? new Response(profile, { headers: { [LEVELHOOK_HEADER]: CONTRACT_VERSION } })
      : app.fetch(request);
  const { url } = await started.open(new LoopbackServer(createAdaptorServer({ fetch })));
  return url;
}

const startBusy = (): Promise<Listening> => startFunctionProcess(setting, 'test/harness/busy-function.ts');

async function startNewGateway(functionUrls: readonly string[]): Promise<Listening> {
  const listening = started.keep(
    await startGateway(setting, functionUrls, {
      LEVELHOOK_LEASE: `${namespace}/gateways`,
      // Loopback really, but in a spelling that does not count as it: nothing else may be bound in a test.
      LEVELHOOK_HOST: '::ffff:127.0.0.1',
      LEVELHOOK_ADMIN_TOKENS: `ann:read:${STATIC.reader} ops:change:${STATIC.operator}`,
    }),
  );
  await untilReady(listening.url);
  return listening;
}

beforeAll(async () => {
  cluster = await started.cluster(setting.kubeconfig, namespace);
  directory = await started.directory();
  functions = started.keep(await startBusy());
  gateway = await startNewGateway([
    ...(functions.urls ?? []),
    await startApp('edge'),
    await startApp('liar', '{"nodes":[1]}'),
    await startApp('flood', 'x'.repeat(17 * 1024 * 1024)),
  ]);
});
afterAll(() => started.stop());

function ask(path: string, token: string | undefined = STATIC.operator, init: RequestInit = {}): Promise<Response> {
  return fetch(gateway.url + path, {
    ...init,
    headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), ...(init.headers as Record<string, string>) },
  });
}

/** Status and error of an answer. */
async function refusal(answer: Response | Promise<Response>): Promise<[number, string]> {
  const { error } = (await (await answer).json()) as { error: string };
  return [(await answer).status, error];
}

/** What Go's own tool says of a profile. */
async function top(answer: Response): Promise<string> {
  expect(answer.status, answer.ok ? '' : await answer.clone().text()).toBe(200);
  expect(answer.headers.get('content-type')).toBe('application/octet-stream');
  const file = join(directory, `${uniqueName('profile')}.pb.gz`);
  await writeFile(file, await answer.bytes());
  return topOf(file);
}

async function topOf(file: string): Promise<string> {
  const { stdout } = await promisify(execFile)('go', ['tool', 'pprof', '-top', '-nodecount=15', file]);
  return stdout;
}

describe('pprof', () => {
  it('shows where the processor time of a function goes', async () => {
    const shown = await top(await ask(`${BUSY}/profile?seconds=2`));
    expect(shown).toMatch(/^Type: cpu\n(?:.*\n)?Duration: \d+(?:[.]\d+)?m?s, Total samples = /m);
    expect(shown).toMatch(/ burnProcessorTime$/m);
  });

  it('shows what allocates the memory of a function that is in use, and all of it', async () => {
    const inUse = await top(await ask(`${BUSY}/heap?seconds=2`));
    expect(inUse).toMatch(/^Type: inuse_space$/m);
    expect(inUse).toMatch(/[kM]B .* allocateAndKeep$/m);
    const all = await top(await ask(`${BUSY}/allocs?seconds=1`));
    expect(all).toMatch(/^Type: alloc_space$/m);
    expect(all).toMatch(/[kM]B .* allocateAndKeep$/m);
  });

  it('shows the gateway itself', async () => {
    expect(await top(await ask(`${SELF}/profile?seconds=1`))).toMatch(/^Type: cpu$/m);
    expect(await top(await ask(`${SELF}/heap?seconds=1`))).toMatch(/^Type: inuse_space$/m);
  });
});

describe('Chrome', () => {
  it.each([SELF, BUSY])('a CPU profile of %s is a .cpuprofile', async (path) => {
    const answer = await ask(`${path}/profile?seconds=1&format=chrome`);
    expect(answer.headers.get('content-disposition')).toMatch(
      /^attachment; filename="(gateway|busy)-profile.cpuprofile"$/,
    );
    const profile = (await answer.json()) as {
      nodes: { id: number; callFrame: { functionName: string; scriptId: string; url: string }; children?: number[] }[];
      startTime: number;
      endTime: number;
      samples: number[];
      timeDeltas: number[];
    };
    const ids = new Set(profile.nodes.map(({ id }) => id));
    expect(ids.size).toBe(profile.nodes.length);
    expect(profile.nodes.flatMap(({ children = [] }) => children).every((id) => ids.has(id))).toBe(true);
    expect(profile.samples.length).toBeGreaterThan(100);
    expect(profile.samples.every((id) => ids.has(id))).toBe(true);
    expect(profile.timeDeltas.length).toBe(profile.samples.length);
    expect(profile.endTime - profile.startTime).toBeGreaterThan(900_000);
    const isBusy = profile.nodes.some(({ callFrame }) => callFrame.functionName === 'burnProcessorTime');
    expect(isBusy).toBe(path === BUSY);
  });

  it('a profile of memory is a .heapprofile', async () => {
    const answer = await ask(`${BUSY}/heap?seconds=1&format=chrome`);
    expect(answer.headers.get('content-disposition')).toContain('busy-heap.heapprofile');
    const { head } = (await answer.json()) as { head: object };
    expect(head).toMatchObject({ callFrame: { functionName: '(root)' }, selfSize: 0, id: expect.any(Number) });
    expect(JSON.stringify(head)).toContain('"allocateAndKeep"');
    expect(JSON.stringify(head)).not.toContain('kept ');
  });
});

describe('the login', () => {
  const accounts = resource('v1', 'ServiceAccount');
  const roles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', { namespaced: false });
  const bindings = resource('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', { namespaced: false });

  it('lets those through who have the right, and the audit log names them and those who have not', async () => {
    const path = `${BUSY}/profile?seconds=1`;
    expect((await ask(path, '')).status).toBe(401);
    expect((await ask(path, 'wrong')).status).toBe(401);
    const refused = `ann has no right to get ${BUSY}/profile`;
    expect(await refusal(ask(path, STATIC.reader))).toEqual([403, refused]);
    expect((await ask(path)).status).toBe(200);
    const what = { audit: true, method: 'GET', path: `${BUSY}/profile` };
    const { lines } = gateway.process;
    const taken = { action: 'profile', of: 'busy', kind: 'cpu', seconds: 1, status: 200, result: 'done' };
    expect(lines).toContainEqual(expect.objectContaining({ ...what, user: 'ops', from: 'static token', ...taken }));
    expect(lines).toContainEqual(expect.objectContaining({ ...what, user: 'ann', result: 'refused: no right' }));
  });

  it('lets Kubernetes decide by the path', async () => {
    await cluster.create(accounts, { metadata: { namespace, name: 'kim' } });
    const { status } = await cluster.client.json<{ status: { token: string } }>({
      method: 'POST',
      path: `${resourcePath(accounts, { namespace, name: 'kim' })}/token`,
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    });
    const { token } = status;
    const metadata = { name: namespace };
    await cluster.create(roles, { metadata, rules: [{ nonResourceURLs: [`${BUSY}/*`], verbs: ['get'] }] });
    started.add(() => cluster.delete(roles, metadata));
    await cluster.create(bindings, {
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: namespace },
      subjects: [{ kind: 'ServiceAccount', name: 'kim', namespace }],
    });
    started.add(() => cluster.delete(bindings, metadata));
    await eventually(async () => expect((await ask(`${BUSY}/profile?seconds=1`, token)).status).toBe(200));
    expect((await ask(`${SELF}/profile?seconds=1`, token)).status).toBe(403);
  });
});

describe('one sentence says why there is no profile', () => {
  it.each<[string, string, number, string | RegExp]>([
    ['too long', `${SELF}/profile?seconds=61`, 400, 'seconds: must be a whole number from 1 to 60'],
    ['too short', `${SELF}/heap?seconds=0`, 400, 'seconds: must be a whole number from 1 to 60'],
    ['no number', `${SELF}/heap?seconds=soon`, 400, 'seconds: must be a whole number from 1 to 60'],
    ['another format', `${SELF}/heap?format=svg`, 400, /^format: Invalid option: expected one of "pprof"\|"chrome"/],
    ['a misspelt parameter', `${BUSY}/heap?second=1`, 400, /"second"/],
    ['no such profile', `${SELF}/block`, 404, 'there is no profile "block": ask for profile, heap, allocs'],
    [
      'no such profile of a function',
      `${BUSY}/block`,
      404,
      'there is no profile "block": ask for profile, heap, allocs',
    ],
    ['no such controller', `${SELF}/controllers/none/heap`, 404, 'there is no controller "none" in this gateway'],
  ])('%s', async (_, path, status, message) => {
    const [actual, error] = await refusal(ask(path));
    expect([actual, error]).toEqual([status, message instanceof RegExp ? expect.stringMatching(message) : message]);
  });

  it('another method, and a page elsewhere', async () => {
    for (const method of ['POST', 'DELETE']) {
      expect(await refusal(ask(`${SELF}/heap`, undefined, { method }))).toEqual([405, 'GET only']);
    }
    expect((await ask(`${SELF}/heap`, undefined, { method: 'HEAD' })).status).toBe(405);
    const elsewhere = await ask(`${SELF}/heap`, undefined, { headers: { 'sec-fetch-site': 'cross-site' } });
    expect(elsewhere.status).toBe(403);
  });

  it('a function on a platform without profilers', async () => {
    const [status, error] = await refusal(ask(`${PROFILE_PATH}/controllers/edge/profile?seconds=1`));
    expect(status).toBe(501);
    expect(error).toMatch(/ takes no profiles \(it answered 404\): a function does on Node, served by serveController/);
  });

  it.each<[string, RegExp]>([
    ['liar', /^the profile of liar cannot be converted [(]it is wrong at nodes[.]0: [^\n]*[)]$/],
    ['flood', / gave no profile [(]the answer is larger than 16 MiB[)]$/],
  ])('a function gives something else: %s', async (name, message) => {
    const asked = ask(`${PROFILE_PATH}/controllers/${name}/profile?seconds=1`);
    expect(await refusal(asked)).toEqual([502, expect.stringMatching(message)]);
  });

  it('a process takes one at a time', async () => {
    const other = `${PROFILE_PATH}/controllers/other`;
    for (const [path, beside, message] of [
      [SELF, SELF, /^a profile of this process is being taken already: try again in [12] s$/],
      [BUSY, BUSY, /^a profile of busy is being taken already: try again later$/],
      // The controllers have one process.
      [BUSY, other, / answered 429: a profile of this process is being taken already: try again in [12] s$/],
    ] as const) {
      const answers = await Promise.all([path, beside].map((each) => ask(`${each}/profile?seconds=2`)));
      const refused = answers.filter(({ status }) => status === 429);
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
      expect((await refusal(refused[0]!))[1]).toMatch(message);
    }
  });
});

describe('a function gives its profile to the gateway alone', () => {
  async function post(
    request: Partial<ProfileRequest>,
    { secret = setting.secret, id = crypto.randomUUID(), path = `/busy${PROFILE_PATH}` } = {},
  ): Promise<[number, unknown]> {
    const body = JSON.stringify({
      version: 'v1',
      controller: 'busy',
      deadline: new Date(Date.now() + 10_000).toISOString(),
      profile: { kind: 'cpu', seconds: 1 },
      ...request,
    });
    const signed = await sign([await importSecret(secret)], { id, nowMs: Date.now(), body });
    const answer = await fetch(functions.url + path, { method: 'POST', body, headers: { ...signed } });
    return [answer.status, await answer.json()];
  }

  it('by the signature, once, and in time', async () => {
    expect(await post({}, { secret: generateSecret() })).toEqual([401, { error: 'no signature matches' }]);
    const id = crypto.randomUUID();
    expect(await post({}, { id })).toEqual([200, expect.objectContaining({ samples: expect.any(Array) })]);
    expect(await post({}, { id })).toEqual([409, { error: 'the request was received before' }]);
    const deadline = new Date(Date.now() - 1000).toISOString();
    expect(await post({ deadline })).toEqual([409, { error: 'the deadline of the request has passed' }]);
  });

  it('and no request for something else is one for a profile, nor the reverse', async () => {
    expect(await post({ controller: 'web' })).toEqual([400, { error: 'the request is for web, and this is busy' }]);
    expect(await post({ profile: { kind: 'cpu', seconds: 61 } })).toEqual([400, { error: expect.any(String) }]);
    expect(await post({}, { path: '/busy' })).toEqual([400, { error: expect.stringContaining('lacks a field') }]);
    const unsigned = await fetch(`${functions.url}/busy${PROFILE_PATH}`, { method: 'POST', body: '{}' });
    expect(unsigned.status).toBe(401);
    expect((await fetch(`${functions.url}/busy${PROFILE_PATH}`)).status).toBe(404);
  });
});

describe('levelhook profile', () => {
  async function run(...args: string[]): Promise<[number | string, string]> {
    const { process } = started.keep({
      process: new TestProcess('src/cli/levelhook.js', ['profile', ...args], {
        // The token is sent to a name of loopback without https.
        LEVELHOOK_GATEWAY: gateway.url.replace('[::ffff:127.0.0.1]', '127.0.0.1'),
        LEVELHOOK_GATEWAY_TOKEN: STATIC.operator,
      }),
    });
    return [await process.exited, process.output];
  }

  it('writes a file for pprof or Chrome, and says how to open it', async () => {
    const file = join(directory, 'function.pb.gz');
    const pprof = await run('busy', '--seconds', '1', '--out', file);
    expect(pprof).toEqual([0, `wrote ${file}: go tool pprof -top ${file}`]);
    expect(await topOf(file)).toMatch(/ burnProcessorTime$/m);
    const heap = join(directory, 'gateway.heapprofile');
    const chrome = await run('--kind', 'heap', '--seconds', '1', '--format', 'chrome', '--out', heap);
    expect(chrome).toEqual([0, `wrote ${heap}: Chrome DevTools, panel Memory, Load profile`]);
    expect(JSON.parse(await readFile(heap, 'utf8'))).toHaveProperty('head.children');
  });

  it.each<[string, string[], RegExp]>([
    [
      'no such controller',
      ['none', '--seconds', '1'],
      /answered 404: there is no controller "none" in this gateway[.]$/,
    ],
    ['too long', ['--seconds', '61'], /A profile takes 1 to 60 seconds; levelhook profile --help shows the usage[.]$/],
    ['another kind', ['--kind', 'block'], /Allowed choices are cpu, heap, allocs; /],
    ['a file in no folder', ['--seconds', '1', '--out', '/nowhere/a'], /cannot be written to [/]nowhere[/]a [(]ENOENT/],
  ])('says what is wrong in one sentence: %s', async (_, args, sentence) => {
    expect(await run(...args)).toEqual([1, expect.stringMatching(sentence)]);
  });
});

describe('a long profile ends', () => {
  /** The end of a profile of 60 s, which the process at `path` takes by now. */
  function startLong(path: string, signal?: AbortSignal, url = gateway.url): Promise<{ end: Promise<unknown> }> {
    const headers = { authorization: `Bearer ${STATIC.operator}` };
    return eventually(async () => {
      const long = { isOver: false };
      const end = fetch(`${url}${path}/profile?seconds=60`, { headers, ...(signal ? { signal } : {}) })
        .catch((error: unknown) => error)
        .finally(() => (long.isOver = true));
      while (!long.isOver) if ((await ask(`${path}/heap?seconds=1`)).status === 429) return { end };
      throw new Error('the profile that was to show that it is busy came first');
    });
  }

  const untilFree = (path: string): Promise<void> =>
    eventually(async () => expect((await ask(`${path}/heap?seconds=1`)).status).toBe(200));

  it.each([SELF, BUSY, `${PROFILE_PATH}/controllers/other`])('of %s when the client hangs up', async (path) => {
    const hungUp = new AbortController();
    const { end } = await startLong(path, hungUp.signal);
    hungUp.abort();
    expect(await end).toBeInstanceOf(Error);
    await untilFree(path);
  });

  it('when the gateway stops, also in the function', async () => {
    const stopped = await startNewGateway(functions.urls ?? []);
    const headers = { authorization: `Bearer ${STATIC.operator}` };
    const own = fetch(`${stopped.url}${SELF}/profile?seconds=60`, { headers }).catch((error: unknown) => error);
    const { end } = await startLong(BUSY, undefined, stopped.url);
    expect(await stopped.process.kill('SIGTERM')).toBe(0);
    for (const each of [own, end]) expect(await each).toBeInstanceOf(Error);
    await untilFree(BUSY);
  });

  it('when the function stops', async () => {
    const { end } = await startLong(BUSY);
    functions.process.send('SIGTERM');
    expect(await refusal((await end) as Response)).toEqual([
      502,
      expect.stringContaining('answered 503: the function is stopping'),
    ]);
    expect(await functions.process.exited).toBe(0);
    expect(await refusal(ask(`${BUSY}/heap?seconds=1`))).toEqual([502, expect.stringContaining('connection refused')]);
  });
});
