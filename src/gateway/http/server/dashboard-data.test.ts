import { expect, it } from 'vitest';
import type { Informer } from '../../informer/cache/informer.ts';
import { dashboardData, type DashboardParts } from './dashboard-data.ts';

const clock = { now: () => 0, wallNow: () => 0 };

function dataOf(parts: object) {
  const options = { checks: new Map(), unavailable: () => undefined, clock };
  return dashboardData({ parts: () => parts as unknown as DashboardParts, ...options });
}

it.each([
  ['at rest', { ageMs: 70_000, unappliedMs: 0, isTaken: true }, 0],
  ['with an event that waits', { ageMs: 70_000, unappliedMs: 20_000, isTaken: true }, 20_000],
  ['whose watch has brought nothing for two hours', { ageMs: 7_200_000, unappliedMs: 0, isTaken: true }, 7_200_000],
  ['that another gateway fills', { ageMs: 70_000, unappliedMs: 0, isTaken: false }, 0],
  ['that no gateway fills', { ageMs: 7_200_000, unappliedMs: 0, isTaken: false }, 7_200_000],
  ['that is not complete', { ageMs: undefined, unappliedMs: 0, isTaken: true }, undefined],
])('a view %s is shown as late as it is', async (_, { ageMs, ...known }, behindMs) => {
  const objects = { size: async () => 0, encrypted: false };
  const record = { progress: async () => ({ version: '1' }), lastList: async () => undefined };
  const informer = { name: 'v1/Pod', synced: true, view: { objects, record }, ageMs: async () => ageMs, ...known };
  const data = dataOf({
    manager: {
      controllers: { known: () => new Map() },
      informers: { all: () => [informer as unknown as Informer] },
    },
  });
  expect(await data.views()).toMatchObject([{ name: 'v1/Pod', behindMs }]);
});

it('no gateway is known to lead while the Lease that was seen last has expired', () => {
  const election = { identity: 'a_1', leader: 'a_1', isLeading: () => false, warning: undefined };
  expect(dataOf({ election }).gateway()).toEqual({ role: 'follower', identity: 'a_1', leader: 'a_1' });
  const expired = { ...election, warning: 'no gateway has renewed the Lease' };
  expect(dataOf({ election: expired }).gateway()).toEqual({ role: 'follower', identity: 'a_1', leader: '' });
});
