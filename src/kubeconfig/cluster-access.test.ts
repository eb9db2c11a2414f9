import { mkdtempSync, rmSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import * as fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { UserError } from '../core/index.ts';
import { clusterAccess } from './cluster-access.ts';

const root = mkdtempSync(join(tmpdir(), 'levelhook-kubeconfig-'));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;

/** Writes files into a folder of their own. @returns the folder. */
async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(root, String((folders += 1)));
  await mkdir(folder);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

interface Config {
  readonly cluster?: object;
  readonly user?: object;
  readonly name?: string;
}

const SERVER = 'https://10.0.0.1:6443';

function configOf({ cluster = {}, user = {}, name = 'a' }: Config): object {
  return {
    'current-context': name,
    clusters: [{ name, cluster: { server: SERVER, ...cluster } }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name } }],
  };
}

async function read(config: Config, files: Readonly<Record<string, string>> = {}) {
  const folder = await folderOf({ ...files, config: stringify(configOf(config)) });
  return (await clusterAccess(join(folder, 'config'))).read();
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const word = fc.stringMatching(/^[a-z]{1,6}$/);
const name = fc.constantFrom('a', 'b', 'c: d', '"e"');

/** Has a file under `field`, or its contents under `field-data`, or neither. */
const pem = (field: string): fc.Arbitrary<object> =>
  fc.oneof(
    fc.constant({}),
    word.map((text) => ({ [`${field}-data`]: base64(text) })),
    fc.constant({ [field]: 'pem' }),
    fc.constant({ [field]: './sub/../pem' }),
  );

const cluster = fc
  .tuple(
    fc.record({ server: fc.constantFrom(SERVER, `${SERVER}/`, `${SERVER}/clusters/x`, 'https://[::1]:1') }),
    fc.record(
      { 'insecure-skip-tls-verify': fc.boolean(), 'tls-server-name': word, 'proxy-url': fc.constant('http://p:1') },
      { requiredKeys: [] },
    ),
    pem('certificate-authority'),
  )
  .map((parts) => Object.assign({}, ...parts) as object);

const login = fc.oneof(
  fc.constant({}),
  word.map((token) => ({ token })),
  fc.record({ username: word, password: word }),
);
const user = fc
  .tuple(pem('client-certificate'), pem('client-key'), login, fc.record({ as: word }, { requiredKeys: [] }))
  .map((parts) => Object.assign({}, ...parts) as object);

/** Clusters, users and contexts in one to three files, no name twice in all of them. */
const configs = fc
  .record({
    clusters: fc.dictionary(name, cluster, { minKeys: 1 }),
    users: fc.dictionary(name, user, { minKeys: 1 }),
    files: fc.integer({ min: 1, max: 3 }),
    asJson: fc.boolean(),
  })
  .chain(({ clusters, users, files, asJson }) =>
    fc
      .record({
        at: fc.array(fc.nat(files - 1), { minLength: 9, maxLength: 9 }),
        cluster: fc.constantFrom(...Object.keys(clusters)),
        user: fc.constantFrom(...Object.keys(users)),
        current: name,
      })
      .map(({ at, cluster: ofCluster, user: ofUser, current }) => {
        const all = [
          ...Object.entries(clusters).map(([key, value]) => ['clusters', { name: key, cluster: value }] as const),
          ...Object.entries(users).map(([key, value]) => ['users', { name: key, user: value }] as const),
          ['contexts', { name: current, context: { cluster: ofCluster, user: ofUser } }] as const,
        ];
        return Array.from({ length: files }, (_, file) => {
          const here = all.filter((_, index) => at[index % at.length] === file);
          const list = (field: string): object => {
            const entries = here.filter(([each]) => each === field).map(([, entry]) => entry);
            return entries.length > 0 ? { [field]: entries } : {};
          };
          const config = {
            apiVersion: 'v1',
            'current-context': current,
            ...list('clusters'),
            ...list('users'),
            ...list('contexts'),
          };
          return asJson ? JSON.stringify(config) : stringify(config);
        });
      }),
  );

describe('clusterAccess', () => {
  it('reads the same as client-node', async () => {
    await fc.assert(
      fc.asyncProperty(configs, async (texts) => {
        const files = Object.fromEntries(texts.map((text, at) => [`config-${at}`, text]));
        const folder = await folderOf({ ...files, pem: 'a PEM file' });
        const paths = Object.keys(files).map((file) => join(folder, file));

        vi.stubEnv('KUBECONFIG', paths.join(':'));
        const config = new KubeConfig();
        config.loadFromDefault(undefined, true);
        vi.unstubAllEnvs();
        const theirs: { [field: string]: unknown; auth?: string } = {};
        await config.applyToHTTPSOptions(theirs);
        const { ca, cert, key, servername, rejectUnauthorized, headers, auth } = theirs;
        const basic = auth === undefined ? {} : { Authorization: `Basic ${base64(auth)}` };

        const access = await clusterAccess(undefined, { KUBECONFIG: paths.join(':') });
        const ours = await access.read();
        expect(access.server).toBe(config.getCurrentCluster()?.server);
        expect(access.proxy).toBe(config.getCurrentCluster()?.proxyUrl);
        expect(ours.tls).toEqual({ ca, cert, key, servername, rejectUnauthorized });
        expect(ours.headers).toEqual({ ...(headers as object), ...basic });
      }),
      { numRuns: 200 },
    );
  });

  it('takes the first value of a name from several files, and leaves out files that do not exist', async () => {
    const folder = await folderOf({
      one: stringify({ 'current-context': 'a', users: [{ name: 'a', user: { token: 'first' } }] }),
      two: stringify(configOf({ user: { token: 'second', as: 'other' } })),
      three: stringify(configOf({ name: 'b', cluster: { server: 'https://other' } })),
    });
    const paths = ['missing', 'one', 'two', 'three'].map((file) => join(folder, file));
    const access = await clusterAccess(undefined, { KUBECONFIG: `${paths.join(':')}:` });
    expect(access.server).toBe(SERVER);
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer first' });
  });

  it('reads ~/.kube/config without KUBECONFIG', async () => {
    const home = await folderOf({});
    await mkdir(join(home, '.kube'));
    await writeFile(join(home, '.kube', 'config'), JSON.stringify(configOf({})));
    expect((await clusterAccess(undefined, { HOME: home })).server).toBe(SERVER);
  });

  it('reads a token file again, and keeps the last token while it cannot be read', async () => {
    const folder = await folderOf({
      token: 'one\n',
      config: stringify(configOf({ user: { tokenFile: 'token', token: 'never' } })),
    });
    const access = await clusterAccess(join(folder, 'config'));
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer one' });
    await writeFile(join(folder, 'token'), 'two');
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer two' });
    rmSync(join(folder, 'token'));
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer two' });
  });

  it('reads a service account in a pod, and its token again', async () => {
    const account = await folderOf({ token: 'one', 'ca.crt': 'authority' });
    const environment = {
      HOME: account,
      KUBERNETES_SERVICE_HOST: 'fd00::1',
      KUBERNETES_SERVICE_PORT: '443',
    };
    const access = await clusterAccess(undefined, environment, account);
    expect(access.server).toBe('https://[fd00::1]:443');
    expect(access.podNamespace).toBeUndefined();
    await writeFile(join(account, 'namespace'), 'beside\n');
    expect((await clusterAccess(undefined, environment, account)).podNamespace).toBe('beside');
    const { tls, headers } = await access.read();
    expect(tls.ca?.toString()).toBe('authority');
    expect(headers).toEqual({ Authorization: 'Bearer one' });
    await writeFile(join(account, 'token'), 'two');
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer two' });
    await expect(clusterAccess(undefined, { HOME: account }, account)).rejects.toThrow('There is no kubeconfig');
  });

  it('impersonates with user, UID, groups and extra fields', async () => {
    const user = { token: 't', as: 'u', 'as-uid': '1', 'as-groups': ['g', 'h'], 'as-user-extra': { 'a/b': ['c'] } };
    expect((await read({ user })).headers).toEqual({
      Authorization: 'Bearer t',
      'Impersonate-User': 'u',
      'Impersonate-Uid': '1',
      'Impersonate-Group': ['g', 'h'],
      'Impersonate-Extra-a%2Fb': ['c'],
    });
  });

  it.each([
    ['a script beside the kubeconfig', './plugin.sh'],
    ['a program on the PATH', 'sh'],
  ])('asks an exec plugin: %s', async (_, command) => {
    const status = { token: 'from the plugin' };
    const script = `#!/bin/sh\necho '${JSON.stringify({ kind: 'ExecCredential', status })}'\n`;
    const folder = await folderOf({ 'plugin.sh': script, config: '' });
    const args = command === 'sh' ? [join(folder, 'plugin.sh')] : [];
    await chmod(join(folder, 'plugin.sh'), 0o700);
    await writeFile(join(folder, 'config'), stringify(configOf({ user: { exec: { command, args } } })));
    const access = await clusterAccess(join(folder, 'config'));
    expect((await access.read()).headers).toEqual({ Authorization: 'Bearer from the plugin' });
  });

  it.each<[string, Config, RegExp]>([
    [
      'a pair of file and data',
      { cluster: { 'certificate-authority': 'a', 'certificate-authority-data': 'YQ==' } },
      /both certificate-authority and/,
    ],
    ['a token and a user name', { user: { token: 'a', username: 'b' } }, /both a token and a user name/],
    ['http', { cluster: { server: 'http://10.0.0.1' } }, /is not https/],
    ['a server that is not a URL', { cluster: { server: 'nowhere' } }, /is not a URL/],
    ['a token that is not text', { user: { token: 1 } }, /users\[0\]\.user\.token is not text/],
  ])('refuses %s', async (_, config, message) => {
    const reading = read(config);
    await expect(reading).rejects.toThrow(UserError);
    await expect(reading).rejects.toThrow(message);
  });

  it.each([
    ['[]', /is not a kubeconfig \(it is not an object\)/],
    ['a: b: c', /is not a kubeconfig \(/],
    ['clusters: 1', /clusters is not a list/],
    ['clusters: [{}]', /clusters\[0\]\.name is missing/],
    ['{}', /names no current cluster/],
    [stringify({ ...configOf({}), users: [] }), /has no user a/],
  ])('refuses the file %j', async (text, message) => {
    const folder = await folderOf({ config: text });
    await expect(clusterAccess(join(folder, 'config'))).rejects.toThrow(message);
  });
});
