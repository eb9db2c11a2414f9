import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { generateSecret } from '../../../src/contract/index.ts';
import { levelhook, UserCommand } from '../../harness/user-command.ts';

const ROOT = resolve(import.meta.dirname, '../../..');

let folder: string;
let occupied: Server;
let command: UserCommand;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'levelhook-bad-input-'));
  occupied = createServer();
  await new Promise<void>((listening) => occupied.listen(0, '127.0.0.1', listening));
});

afterAll(() => {
  rmSync(folder, { recursive: true });
  occupied.close();
});

afterEach(() => command.clean());

/**
 * One sentence of ours on stderr, after the cluster, the functions and Redis if they were said before, no stack, exit
 * code 1, within seconds, and nothing left of it.
 */
async function expectOneSentence(sentence: RegExp): Promise<void> {
  const startedAt = Date.now();
  expect(await command.exited, command.output).toBe(1);
  // Two seconds, mostly; other tests run beside this one.
  expect(Date.now() - startedAt).toBeLessThan(20_000);
  const sentences = command.stderr.filter(
    (line) => !/^(cluster|functions|Redis): |^the ReconcileFunctions of the cluster /.test(line),
  );
  expect(sentences).toEqual([expect.stringMatching(sentence)]);
  expect(command.running()).toEqual([]);
  expect(command.leftFiles()).toEqual([]);
}

function file(name: string, contents: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, contents);
  return path;
}

function kubeconfigFor(name: string, cluster: object): string {
  return file(
    name,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'it', cluster }],
      users: [{ name: 'me', user: { token: 'nobody' } }],
      contexts: [{ name: 'here', context: { cluster: 'it', user: 'me' } }],
      'current-context': 'here',
    }),
  );
}

function portInUse(): string {
  const address = occupied.address();
  return String(typeof address === 'object' ? address?.port : 0);
}

/** What both commands check. A sentence that comes from the same code is looked at once, at `start`. */
describe.each(['start', 'gateway'])('levelhook %s ends with one sentence when', (name) => {
  const run = (args: readonly string[], env: Readonly<Record<string, string>> = {}): void => {
    command = levelhook([name, ...args], { REDIS_URL: inject('redisUrl'), ...env });
  };
  const port = ['--port', '0'];

  it.each<[string, () => string, RegExp]>([
    ['is missing', () => join(folder, 'nowhere'), /kubeconfig .*nowhere (does not exist|cannot be read)/],
    ['is no YAML', () => file('garbage', 'a: [\nb'), /is not a kubeconfig/],
    [
      'has a wrong token',
      () => file('token', readFileSync(inject('kubeconfig'), 'utf8').replace(/token"?: *"?[^"\s,}]+/, 'token: hidden')),
      /cannot be used \(Unauthorized\): check the kubeconfig\.$/,
    ],
  ])('the kubeconfig %s', async (_, kubeconfig, sentence) => {
    run([...port, '--kubeconfig', kubeconfig()]);
    await expectOneSentence(sentence);
    expect(command.output).not.toContain('hidden');
  });

  it('the port is in use', async () => {
    run(['--port', portInUse(), '--kubeconfig', inject('kubeconfig')]);
    await expectOneSentence(/cannot listen on 127\.0\.0\.1:[0-9]+ \(another process listens there\): choose another/);
  });

  it('the port is no port', async () => {
    run(['--port', '70000']);
    await expectOneSentence(/A port is a number from 0 to 65535; levelhook (start|gateway) --help shows/);
  });

  it('a setting in the environment is wrong', async () => {
    run([...port, '--kubeconfig', inject('kubeconfig')], { LEVELHOOK_KEY_PREFIX: 'a b' });
    await expectOneSentence(/LEVELHOOK_KEY_PREFIX is wrong: may hold/);
  });
});

describe('levelhook start ends with one sentence when', () => {
  it('Redis does not answer at REDIS_URL', async () => {
    const env = { REDIS_URL: 'redis://me:hidden@127.0.0.1:1' };
    command = levelhook(['start', '--port', '0', '--kubeconfig', inject('kubeconfig')], env);
    await expectOneSentence(/^levelhook: .*Redis.* 127\.0\.0\.1:1 .*ECONNREFUSED/);
    expect(command.output).not.toContain('hidden');
  });

  it.each<[string, () => string, RegExp]>([
    ['is a folder', () => folder, /is not a kubeconfig \(EISDIR/],
    ['is binary', () => file('binary', Buffer.concat([Buffer.of(0), randomBytes(400)])), /is not a kubeconfig/],
    ['is something else', () => file('other', 'hello: world'), /no current cluster|is not a kubeconfig/],
    ['names no server', () => kubeconfigFor('no-server', {}), /server is missing/],
    [
      'leads to an apiserver that is not there',
      () => kubeconfigFor('refused', { server: 'https://127.0.0.1:1' }),
      /^levelhook: The apiserver at https:\/\/127\.0\.0\.1:1 cannot be used \(connect ECONNREFUSED 127\.0\.0\.1:1\): check the kubeconfig\.$/,
    ],
  ])('the kubeconfig %s', async (_, kubeconfig, sentence) => {
    command = levelhook(['start', '--port', '0', '--kubeconfig', kubeconfig()]);
    await expectOneSentence(sentence);
  });

  it.each([
    ['the port is -1', ['--port=-1'], /A port is a number/],
    [
      'an option is misspelt',
      ['--prot', '1'],
      /^levelhook: unknown option '--prot' \(Did you mean --port\?\); levelhook start --help shows/,
    ],
    ['there is an argument too many', ['now'], /too many arguments/],
    ['there is a comma too many', ['--functions', 'replicaset,,replicaset'], /single commas/],
  ])('%s', async (_, args, sentence) => {
    command = levelhook(['start', ...args]);
    await expectOneSentence(sentence);
  });

  it.each([
    ['LEVELHOOK_DRAIN_SECONDS', 'long', /LEVELHOOK_DRAIN_SECONDS is wrong: must be a number of seconds/],
    ['LEVELHOOK_FUNCTIONS', 'ftp://x', /LEVELHOOK_FUNCTIONS is wrong: must be http/],
    ['LEVELHOOK_CACHE_URL', 'http://gateway.example.com/cache', /LEVELHOOK_CACHE_URL is wrong: must be https, or on/],
    ['LEVELHOOK_CACHE_URL', 'nowhere', /LEVELHOOK_CACHE_URL is wrong: must be an http/],
    ['LEVELHOOK_CACHE_LIST_LIMIT', '0', /LEVELHOOK_CACHE_LIST_LIMIT is wrong/],
    ['LEVELHOOK_TLS_CERT_FILE', 'x.crt', /LEVELHOOK_TLS_KEY_FILE is not set/],
  ])('%s is wrong', async (variable, value, sentence) => {
    command = levelhook(['start', '--port', '0'], { [variable]: value });
    await expectOneSentence(sentence);
  });
});

describe('levelhook gateway ends with one sentence when', () => {
  const url = 'http://127.0.0.1:1';

  it.each(['whsec_hidden!', 'hidden'])(
    'the signing secret is malformed, and does not repeat it: %s',
    async (secret) => {
      const env = { LEVELHOOK_FUNCTIONS: url, LEVELHOOK_SIGNING_SECRETS: secret };
      command = levelhook(['gateway', '--port', '0', '--kubeconfig', inject('kubeconfig')], env);
      await expectOneSentence(/LEVELHOOK_SIGNING_SECRETS is wrong: /);
      expect(command.output).not.toContain(secret);
    },
  );

  it.each<[string, Readonly<Record<string, string>>, RegExp]>([
    [
      'a token can be guessed',
      { LEVELHOOK_API_TOKENS: 'hidden' },
      /API_TOKENS is wrong: must hold tokens of at least 16/,
    ],
    ['the authorities are nowhere', { LEVELHOOK_FUNCTION_CA_FILE: '/nowhere' }, /FUNCTION_CA_FILE cannot be read/],
    ['a cache key is none', { LEVELHOOK_CACHE_KEYS: 'k:hidden' }, /CACHE_KEYS is wrong: .* must have base64/],
    [
      'the cache keys are nowhere',
      { LEVELHOOK_CACHE_KEYS_FILE: '/nowhere' },
      /CACHE_KEYS_FILE \/nowhere cannot be read/,
    ],
    [
      'gateways share an address and no keys',
      { LEVELHOOK_CACHE_URL: 'https://gateway.example.com/cache' },
      /LEVELHOOK_CACHE_URL needs LEVELHOOK_CACHE_KEYS, the same for all gateways/,
    ],
    [
      'the names of Redis users follow from no key',
      { LEVELHOOK_REDIS_USERS: '*', LEVELHOOK_SIGNING_SECRETS: '' },
      /LEVELHOOK_REDIS_USERS needs LEVELHOOK_CACHE_KEYS, the same for all gateways/,
    ],
    [
      'the namespaces of Redis users are not named',
      { LEVELHOOK_REDIS_USERS: 'true' },
      /LEVELHOOK_REDIS_USERS is wrong: must name namespaces, separated by commas, or be \* for all/,
    ],
    [
      'a threshold is no number',
      { LEVELHOOK_CACHE_COMPRESS_ABOVE: 'never' },
      /CACHE_COMPRESS_ABOVE is wrong: must be a number of bytes, or off/,
    ],
    [
      'an address is one that no function has',
      { LEVELHOOK_FUNCTIONS: 'http://169.254.169.254/latest' },
      /LEVELHOOK_FUNCTIONS is wrong: the endpoint http:\/\/169\.254\.169\.254 is an address that no function has/,
    ],
  ])('%s', async (_, variables, sentence) => {
    const env = { LEVELHOOK_SIGNING_SECRETS: generateSecret(), ...variables };
    command = levelhook(['gateway', '--port', '0', '--kubeconfig', inject('kubeconfig')], env);
    await expectOneSentence(sentence);
    expect(command.output).not.toContain('hidden');
  });

  it('the signing secret is missing', async () => {
    command = levelhook(['gateway', '--port', '0'], { LEVELHOOK_FUNCTIONS: url });
    await expectOneSentence(/LEVELHOOK_SIGNING_SECRETS is not set/);
  });
});

describe('levelhook start ends with one sentence when', () => {
  it.each(['nope', 'examples', 'examples/../replicaset'])('there is no function %s', async (name) => {
    command = levelhook(['start', '--functions', name]);
    await expectOneSentence(
      /^levelhook: There is no function ".*" in functions\/: there is .*replicaset.*examples\/01-/,
    );
  });

  it('a function cannot start: what it said comes before, and the rest is stopped', async () => {
    // A copy of the package, in which a function can be planted.
    const copy = join(folder, 'copy');
    mkdirSync(join(copy, 'functions/broken'), { recursive: true });
    for (const name of ['src', 'package.json']) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
    const args = ['--conditions=levelhook-source', 'src/cli/levelhook.js', 'start', '--functions', 'broken'];
    const run = (code: string): void => {
      writeFileSync(join(copy, 'functions/broken/node.ts'), code);
      const flags = ['--kubeconfig', inject('kubeconfig'), '--port', '0'];
      command = new UserCommand(process.execPath, [...args, ...flags], { cwd: copy });
    };

    run("process.stderr.write('the moon is not full\\n');\nprocess.exitCode = 3;\n");
    expect(await command.exited, command.output).toBe(1);
    expect(command.stderr.at(-1)).toBe('levelhook: function broken ended (3): the moon is not full.');
    expect(command.output.match(/the moon/g)).toHaveLength(1);
    expect(command.running()).toEqual([]);
    expect(command.leftFiles()).toEqual([]);
    await command.clean();

    // Its author needs the stack.
    run("throw new Error('the moon is not full');\n");
    expect(await command.exited, command.output).toBe(1);
    expect(command.stderr.at(-1)).toBe('levelhook: function broken ended (1): see what it wrote above.');
    expect(command.stderr).toContain('function broken: Error: the moon is not full');
    expect(command.stderr.filter((line) => line.startsWith('levelhook: '))).toHaveLength(1);
    expect(command.leftFiles()).toEqual([]);
  });
});

describe('a function alone ends with one sentence when', () => {
  const script = 'functions/examples/01-minimal/node.ts';
  const run = (env: Readonly<Record<string, string>>): void => {
    const args = ['--conditions=levelhook-source', script];
    command = new UserCommand(process.execPath, args, {
      env: { LEVELHOOK_SIGNING_SECRETS: generateSecret(), REDIS_URL: inject('redisUrl'), ...env },
    });
  };

  it('its port is in use', async () => {
    run({ PORT: portInUse() });
    await expectOneSentence(/is in use by another program: set PORT/);
  });

  it.each<[string, Readonly<Record<string, string>>, RegExp]>([
    ['the port is bad', { PORT: 'x' }, /PORT must be a number/],
    [
      'the secret is malformed',
      { LEVELHOOK_SIGNING_SECRETS: 'hidden' },
      /^signing secret 1 of 1 is malformed: .*whsec_/,
    ],
    ['there is no secret', { LEVELHOOK_SIGNING_SECRETS: '' }, /LEVELHOOK_SIGNING_SECRETS is not set/],
  ])('%s', async (_, env, sentence) => {
    run(env);
    await expectOneSentence(sentence);
  });
});

describe('the help of the very command is named by a sentence of levelhook', () => {
  it.each<[string, string[], RegExp]>([
    ['get', ['lst'], /unknown command 'lst'/],
    ['get keys', ['web', '--lst', 'dead'], /unknown option '--lst' \(Did you mean --list\?\)/],
    ['get keys', ['web', '--list', 'nothing'], /'nothing' is invalid\. Allowed choices are queued, running, /],
    ['get dead-letters', ['--limit', 'many'], /Write a whole number/],
    ['get controllers', ['--gateway', 'nowhere'], /Write it as http:\/\/127\.0\.0\.1:8787/],
    ['explain', ['controller'], /missing required argument 'key'/],
    ['explain', ['controller', 'a/x', 'a/y'], /too many arguments/],
    ['replay', ['controller', '--al'], /unknown option '--al' \(Did you mean --all\?\)/],
    ['drop', ['controller', '--namespace'], /option '--namespace <name>' argument missing/],
    ['pause', [], /missing required argument 'controller'/],
    ['resume', ['controller', '--all'], /unknown option '--all'/],
    ['explain', ['controller', 'a/x', '--output', 'table'], /Allowed choices are text, json, yaml/],
    ['profile', ['--kind', 'all'], /Allowed choices are cpu, /],
    ['profile', ['--seconds', '0'], /A profile takes 1 to /],
  ])('%s %j', async (name, args, mistake) => {
    command = levelhook([...name.split(' '), ...args]);
    await expectOneSentence(
      new RegExp(`^levelhook: .*${mistake.source}.*; levelhook ${name} --help shows the usage\\.$`),
    );
  });
});

it('levelhook with an unknown command ends with one sentence', async () => {
  command = levelhook(['begin']);
  await expectOneSentence(/^levelhook: unknown command 'begin'/);
});
