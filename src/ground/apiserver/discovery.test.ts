import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { resource } from '../../core/index.ts';
import { discoverResource, versionsOf } from './discovery.ts';

const verbs = ['get', 'list', 'watch'];
const things = { name: 'things', kind: 'Thing', namespaced: true, verbs };

let server: ScriptedApiserver;
/** By path. */
let documents: Record<string, object>;
let asked: string[];

beforeEach(async () => {
  server = await ScriptedApiserver.start();
  documents = {};
  asked = [];
  server.answer((path) => {
    asked.push(path);
    return documents[path];
  });
});
afterEach(() => server[Symbol.asyncDispose]());

const discover = (apiVersion: string) => discoverResource(server.client, { apiVersion, kind: 'Thing' });

describe('a kind', () => {
  it('is written as the answer about its very API version says', async () => {
    documents['/apis/example.com/v1'] = { groupVersion: 'example.com/v1', resources: [things] };
    expect(await discover('example.com/v1')).toEqual({
      apiVersion: 'example.com/v1',
      kind: 'Thing',
      plural: 'things',
      namespaced: true,
    });
    expect(asked).toEqual(['/apis/example.com/v1']);
  });

  it.each(['v1', 'example.com/v2', '', undefined])('is not taken from an answer about %j', async (groupVersion) => {
    documents['/apis/example.com/v1'] = { groupVersion, resources: [things] };
    await expect(discover('example.com/v1')).rejects.toMatchObject({ reason: 'ApiVersionNotServed' });
  });

  it.each([
    { name: 'things/status' },
    { name: '../secrets' },
    { name: '' },
    { group: 'other.example.com' },
    { version: 'v2' },
  ])('is not taken from an entry that has %j: what is asked for is what would be read', async (other) => {
    documents['/apis/example.com/v1'] = { groupVersion: 'example.com/v1', resources: [{ ...things, ...other }] };
    await expect(discover('example.com/v1')).rejects.toMatchObject({ reason: 'KindNotServed' });
  });

  it.each(['mine.example.com/../../api/v1', '.../../../api/v1', 'apps/./v1', '..', 'v1/', 'v1?x', 'apps/%2e%2e'])(
    'of what is no API version is not asked for: %s',
    async (apiVersion) => {
      await expect(discover(apiVersion)).rejects.toMatchObject({ reason: 'ApiVersionNotServed' });
      expect(asked).toEqual([]);
    },
  );

  it('is served in the versions of its group that have it under the same plural and in the same scope', async () => {
    documents['/apis/example.com'] = {
      versions: ['v1', 'v2', 'v3', 'v4', 'v5'].map((version) => ({ groupVersion: `example.com/${version}` })),
    };
    documents['/apis/example.com/v1'] = { groupVersion: 'example.com/v1', resources: [things] };
    documents['/apis/example.com/v2'] = { groupVersion: 'example.com/v2', resources: [{ ...things, kind: 'Other' }] };
    documents['/apis/example.com/v3'] = { groupVersion: 'v1', resources: [things] };
    documents['/apis/example.com/v4'] = { groupVersion: 'example.com/v4', resources: [{ ...things, name: 'stuffs' }] };
    documents['/apis/example.com/v5'] = {
      groupVersion: 'example.com/v5',
      resources: [{ ...things, namespaced: false }],
    };
    const kind = resource('example.com/v1', 'Thing');
    expect(await versionsOf(server.client, kind, AbortSignal.timeout(10_000))).toEqual(['example.com/v1']);
  });
});
