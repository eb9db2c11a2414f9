import { describe, expect, it } from 'vitest';
import { ApiError, type KubernetesObject, resource } from '../../../core/index.ts';
import type { ApiClient, ApiRequest } from '../../../ground/apiserver/api-client.ts';
import { objectChange } from './object-change.ts';

/** An apiserver that has these states of one object, by version. */
function server(states: Readonly<Record<string, KubernetesObject | undefined>>): Pick<ApiClient, 'measuredJson'> {
  return {
    measuredJson: async ({ query }: ApiRequest) => {
      const version = String(query?.['resourceVersion']);
      if (!(version in states)) throw new ApiError({ code: 410, reason: 'Expired', message: 'compacted' });
      return { value: { items: states[version] ? [states[version]] : [] }, bytes: 1000, weight: 6000 };
    },
  };
}

const menu = (resourceVersion: string, managedFields?: readonly object[]): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'shop', name: 'menu', uid: 'u', resourceVersion, managedFields: [...(managedFields ?? [])] },
});
const manager = (name: string, time: string, more: object = {}): object => ({
  manager: name,
  operation: 'Update',
  time,
  ...more,
});

const at = { namespace: 'shop', name: 'menu' };
let paidBytes = 0;
const changeAt = (
  version: string,
  states: Parameters<typeof server>[0],
  isDeletion = false,
): ReturnType<typeof objectChange> =>
  objectChange({
    resource: resource('v1', 'ConfigMap'),
    at,
    version,
    isDeletion,
    metadataOnly: false,
    client: server(states),
    time: { paceBytes: async (bytes) => void (paidBytes += bytes) },
    shown: (object) => object,
  });

describe('a change of an object', () => {
  it('is between the version before it and its own, by the manager whose time it has set', async () => {
    const before = menu('9', [manager('kubectl', '10:00'), manager('hpa', '10:01')]);
    const after = menu('12', [manager('kubectl', '10:00'), manager('hpa', '10:05', { subresource: 'scale' })]);
    expect(await changeAt('12', { 11: before, 12: after })).toEqual({
      kind: 'shown',
      before,
      after,
      managers: ['hpa (scale)'],
    });
  });

  it('names all managers that may have made it within the same second', async () => {
    const fields = [manager('old', '09:00'), manager('a', '10:00'), manager('b', '10:00')];
    const states = { 11: menu('9', fields), 12: menu('12', fields) };
    expect(await changeAt('12', states)).toMatchObject({ managers: ['a', 'b'] });
  });

  it('of a creation has no state before, and of a deletion none after and no manager', async () => {
    const object = menu('12', [manager('kubectl', '10:00')]);
    expect(await changeAt('12', { 11: undefined, 12: object })).toMatchObject({
      before: undefined,
      managers: ['kubectl'],
    });
    paidBytes = 0;
    expect(await changeAt('13', { 12: object, 13: undefined }, true)).toMatchObject({ after: undefined, managers: [] });
    expect(paidBytes).toBe(2000);
  });

  it('is not shown when the reason is a deletion that only a later list has shown', async () => {
    const states = { 11: menu('9'), 12: menu('12') };
    expect(await changeAt('12', states, true)).toMatchObject({
      kind: 'hidden',
      reason: expect.stringMatching(/did not see/),
    });
  });

  it('is of the very name, whatever else a server answers', async () => {
    const other = { ...menu('12'), metadata: { ...menu('12').metadata, name: 'other' } };
    expect(await changeAt('12', { 11: other, 12: other })).toMatchObject({ kind: 'hidden' });
  });

  it.each([
    ['compacted', { 12: menu('12') }],
    ['of another history', { 11: menu('4'), 12: menu('4') }],
    ['of nothing', { 11: undefined, 12: undefined }],
  ])('is forgotten when its versions are %s', async (_, states) => {
    expect(await changeAt('12', states)).toMatchObject({
      kind: 'hidden',
      reason: expect.stringMatching(/five minutes/),
    });
  });

  it('is not asked for by a text that is no version', async () => {
    expect(await changeAt('12x', {})).toMatchObject({ kind: 'hidden' });
  });

  it('survives managed fields of any form', async () => {
    const after = menu('12', [null as never, { manager: 7 }, manager('x', '1')]);
    expect(await changeAt('12', { 11: undefined, 12: after })).toMatchObject({ kind: 'shown' });
  });
});
