import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { describedSettings } from '../../src/ground/config/config.ts';
import { repositoryRoot } from './temp-repository.ts';

const CHART = 'infra/helm/levelhook';
const isUpdating = process.env['UPDATE_CHART'] === '1';

/** Helm reads files of the chart's own folder only. */
const COPIES = [
  ['infra/rbac/gateway.yaml', `${CHART}/files/gateway.yaml`],
  ['infra/rbac/dashboard.yaml', `${CHART}/files/dashboard.yaml`],
  ['infra/rbac/credentials-token.yaml', `${CHART}/files/credentials-token.yaml`],
  ['infra/rbac/credentials-proxy.yaml', `${CHART}/files/credentials-proxy.yaml`],
  ['infra/observability/rules.yaml', `${CHART}/files/rules.yaml`],
  ['infra/observability/dashboard.json', `${CHART}/files/grafana.json`],
  ['infra/rbac/webhooks.yaml', `${CHART}/files/webhooks.yaml`],
  ['infra/crds/levelhook.dev_reconcilefunctions.yaml', `${CHART}/files/crd.yaml`],
] as const;

/** Settings that the chart makes of other values. */
const OWN = /^(REDIS_URL|LEVELHOOK_(PORT|LEASE|API_TOKENS|SIGNING_SECRETS|CACHE_KEYS|ADMIN_TOKENS|\w+_FILE))$/;

const read = (path: string): string => readFileSync(join(repositoryRoot, path), 'utf8');
const write = (path: string, text: string): void => writeFileSync(join(repositoryRoot, path), text);

it.each(COPIES)('%s is in the chart, letter by letter (npm run update-chart)', (source, copy) => {
  if (isUpdating) write(copy, read(source));
  expect(read(copy)).toBe(read(source));
});

it("the chart's values take each setting of the gateway that it does not make itself (npm run update-chart)", () => {
  const path = `${CHART}/values.schema.json`;
  const schema = JSON.parse(read(path)) as { properties: { settings: { properties: Record<string, object> } } };
  const { settings } = schema.properties;
  const wanted = describedSettings()
    .map(({ variable }) => variable)
    .filter((variable) => !OWN.test(variable));
  if (isUpdating) {
    settings.properties = Object.fromEntries(wanted.map((name) => [name, { type: ['string', 'number', 'boolean'] }]));
    write(path, `${JSON.stringify(schema, null, 2)}\n`);
  }
  expect(Object.keys(settings.properties)).toEqual(wanted);
});
