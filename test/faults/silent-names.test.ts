import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, inject, it } from 'vitest';
import { forward, ownAddress } from '../harness/addresses.ts';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, gatewayVariables, uniqueName } from '../harness/levelhook.ts';
import { startNameServer } from '../harness/name-server.ts';
import { TestProcess } from '../harness/process.ts';
import { RawFunction } from '../harness/raw-function.ts';
import { Started } from '../harness/started.ts';

/**
 * A lookup of a name without an answer takes three attempts, longer than the test waits for the victim.
 */
const RESOLVER = 'options timeout:30 attempts:3';
const SILENT = Array.from({ length: 16 }, (_, at) => `http://silent-${at}.example.test/`);

const started = new Started();
afterAll(() => started.stop());

it('functions whose names are never answered keep no other function waiting', async () => {
  const namespace = uniqueName('silent');
  const cluster = await started.cluster(inject('kubeconfig'), namespace);
  const source = { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] };
  const fn = await started.open(new RawFunction({ name: 'served', for: source, concurrency: 1, timeoutSeconds: 5 }));
  const address = ownAddress(started);
  const closeForward = await forward({ address, port: fn.port }, { address: '127.0.0.1', port: fn.port });
  started.add(closeForward);
  await startNameServer(started, address, { 'served.example.test': address });
  const resolver = join(await started.directory(), 'resolv.conf');
  await writeFile(resolver, `nameserver ${address}\n${RESOLVER}\n`);

  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const urls = [...SILENT, `http://served.example.test:${fn.port}/`];
  const script = `mount --bind ${resolver} /etc/resolv.conf && exec "$0" "$@"`;
  const gateway = new TestProcess(
    'src/cli/levelhook.js',
    ['gateway', '--kubeconfig', setting.kubeconfig, '--port', '0'],
    gatewayVariables(setting, urls),
    [
      'unshare',
      '--mount',
      '--propagation',
      'private',
      'sh',
      '-c',
      script,
      process.execPath,
      '--conditions=levelhook-source',
    ],
  );
  started.keep({ process: gateway });
  await gateway.line(({ msg }) => msg === 'listening');
  await cluster.create(configMaps, { metadata: { namespace, name: 'one' } });
  await eventually(async () => expect(fn.arrivals).toContainEqual({ key: 'one', attempt: 1 }), 60_000);
  await cluster.patch(configMaps, { namespace, name: 'one' }, { data: { a: 'b' } });
  await eventually(
    async () => expect(fn.arrivals.filter(({ key }) => key === 'one').length).toBeGreaterThan(1),
    60_000,
  );
});
