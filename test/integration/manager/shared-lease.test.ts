import { afterAll, expect, inject, it } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { createSetting, type Setting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const started = new Started();

afterAll(() => started.stop());

it('a follower says that the gateways of another deployment hold its Lease, until it leads itself', async () => {
  const namespace = uniqueName('shared');
  await started.cluster(inject('kubeconfig'), namespace);
  const shared = { kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') };
  const [first, second] = [createSetting(shared), createSetting(shared)];
  const start = async (setting: Setting): Promise<Opened> =>
    started.keep(
      await openGateway(setting, [], {
        LEVELHOOK_LEASE: `${namespace}/levelhook`,
        LEVELHOOK_LEASE_SECONDS: '15',
        LEVELHOOK_LEASE_RENEW_SECONDS: '10',
        LEVELHOOK_LEASE_RETRY_SECONDS: '2',
      }),
    );
  const leader = await start(first);
  await eventually(async () => expect(await metric(leader.url, 'leader_election_master_status')).toBe(1));
  const follower = await start(first);
  await untilReady(follower.url);
  const other = await start(second);

  // It is ready all the same: an update that moves the data would not end otherwise.
  const warning = /^\[\+\]leader warning: the Lease (\S+) is held by a gateway .* LEVELHOOK_LEASE$/m;
  await untilReady(other.url);
  await eventually(async () => {
    const [, lease] = warning.exec(await readyz(other)) ?? [];
    expect(lease).toBe(`${namespace}/levelhook`);
  });
  // Its leader has been the same for longer.
  for (const each of [leader, follower]) expect(await readyz(each)).toContain('[+]leader ok');

  for (const { process } of [follower, leader]) expect(await process.kill('SIGTERM')).toBe(0);
  await eventually(async () => expect(await readyz(other)).toContain('[+]leader ok'));
  const logged = other.process.lines.filter(({ msg }) => msg === 'no gateway leads this deployment');
  expect(logged).toHaveLength(1);
  for (const { process } of [leader, follower]) expect(process.output).not.toContain('no gateway leads');
});

async function readyz({ url }: Opened): Promise<string> {
  return (await fetch(`${url}/readyz?verbose`)).text();
}
