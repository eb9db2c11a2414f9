import { readFile } from 'node:fs/promises';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { webhookConfigurations } from '../../../src/cli/webhook-manifests.ts';
import { SECRETS } from '../../../src/gateway/certificates/certificate-secret.ts';
import { freePort } from '../../../src/testing/process/free-port.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { GatewayAccount } from '../../harness/gateway-account.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { allow, refuse, ReviewFunction } from '../../harness/review-function.ts';
import { Started } from '../../harness/started.ts';
import { reviewsUrl } from '../../harness/webhook-configurations.ts';

const started = new Started();
const namespace = uniqueName('own-certificate');
const secret = { namespace, name: 'webhooks' };
const validating = resource('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', { namespaced: false });
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const names = {
  ...configMap,
  type: 'validating',
  name: 'names',
  operations: ['CREATE'],
  namespaces: [namespace],
} as const;

let cluster: Cluster;
let setting: Setting;
let guard: ReviewFunction;
let url: string;

/** The gateway has the rights of infra/rbac and no others. */
beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const account = new GatewayAccount(cluster, namespace);
  const kubeconfig = await account.create(inject('kubeconfig'), await started.directory());
  for (const file of ['gateway.yaml', 'webhooks.yaml']) {
    await account.grantFile(file);
    started.add(() => account.revoke(file));
  }
  const documents = parseAllDocuments(await readFile('infra/rbac/webhooks.yaml', 'utf8'));
  const role = documents
    .map((each) => each.toJS() as KubernetesObject & { rules: { resourceNames?: string[] }[] })
    .find(({ kind }) => kind === 'Role');
  for (const rule of role?.rules ?? []) if (rule.resourceNames) rule.resourceNames = [secret.name];
  await account.grant('secret', role?.rules ?? []);
  started.add(() => account.revoke('secret'));
  await account.grant('reads', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }]);
  started.add(() => account.revoke('reads'));
  setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
  guard = await started.open(
    new ReviewFunction(
      { name: 'guard', for: { ...configMap, namespaces: [namespace] }, webhooks: [names] },
      setting.secret,
    ),
  );
  url = `https://127.0.0.1:${await freePort()}`;
});
afterAll(() => started.stop());

const settings = (): Record<string, string> => ({
  LEVELHOOK_WEBHOOK_LISTEN: new URL(url).host,
  LEVELHOOK_WEBHOOK_URL: url,
  LEVELHOOK_WEBHOOK_SECRET: `${secret.namespace}/${secret.name}`,
});

const create = (name: string) => cluster.create(configMaps, { metadata: { namespace, name } });

it('a gateway makes its certificate, tells the apiserver its CA, and serves reviews with it', async () => {
  const gateway = started.keep(await startGateway(setting, [guard.url], settings()));
  expect(await reviewsUrl(gateway)).toBe(url);
  await untilReady(gateway.url);
  expect(await (await fetch(`${gateway.url}/readyz?verbose`)).text()).toContain('[+]certificates ok');
  expect(await (await fetch(`${gateway.url}/metrics`)).text()).toMatch(
    /levelhook_certificate_expiry_seconds\{use="ca"\} 315\d{5}\n/,
  );

  // As levelhook manifest prints it, but for a function that is configured by URL and has no namespace in its path.
  const [configuration] = webhookConfigurations({ name: 'guard', webhooks: [names] }, [resource('v1', 'ConfigMap')], {
    namespace,
    route: { at: { url }, direct: false, excluded: ['kube-system', 'levelhook'], authority: 'gateway' },
  });
  const text = JSON.stringify(configuration).replaceAll(`/webhooks/${namespace}.guard/`, '/webhooks/guard/');
  const made = await cluster.create(validating, JSON.parse(text) as Parameters<Cluster['create']>[1]);
  started.add(() => cluster.delete(validating, { name: made.metadata.name }));
  guard.behaviour = refuse('not that name');
  await eventually(async () => {
    await expect(create('refused')).rejects.toThrow('not that name');
  });
  guard.behaviour = allow;
  await create('allowed');
  expect(guard.reviews.at(-1)).toMatchObject({ webhook: 'names', request: { name: 'allowed' } });

  // Killed, and its port taken by the next one: the same authority, so that nothing has to be told to anyone.
  const before = await cluster.get(SECRETS, secret);
  await gateway.process.kill();
  await expect(create('dead')).rejects.toThrow('failed calling webhook');
  const next = started.keep(await startGateway(setting, [guard.url], settings()));
  await untilReady(next.url);
  await eventually(async () => create('again'));
  expect((await cluster.get(SECRETS, secret))?.data).toEqual(before?.data);
  const ca = Buffer.from(before?.data?.['ca.crt'] ?? '', 'base64').toString();
  const agent = new Agent({ connect: { ca } });
  started.add(() => agent.destroy());
  expect((await request(url, { dispatcher: agent })).statusCode).toBe(404);
});

it.each([
  ['LEVELHOOK_WEBHOOK_SECRET is not set, and the gateway is in no namespace', { LEVELHOOK_WEBHOOK_SECRET: '' }],
  ['LEVELHOOK_WEBHOOK_LISTEN needs a certificate: set ', { LEVELHOOK_WEBHOOK_URL: '' }],
])('without a certificate to come a gateway does not start: %s', async (message, less) => {
  const { process } = started.keep(await startGateway(setting, [guard.url], { ...settings(), ...less }));
  expect(await process.exited).toBe(1);
  expect(process.output).toContain(message);
});
