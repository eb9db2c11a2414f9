import { expect, it } from 'vitest';
import { resource } from '../../../core/index.ts';
import { isEncrypted, settingsHash, transformOf } from './view-settings.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

it('views that are in use keep their names', () => {
  // Another hash is another view: everything is listed anew and every key runs. Do not change these in passing.
  expect(settingsHash({}, resource('v1', 'Pod'))).toBe('i8u8NIQ3Um');
  expect(settingsHash({ metadataOnly: true, labelSelector: 'a=b' }, resource('v1', 'ConfigMap'), 'web')).toBe(
    'jGv9Ui1bqg',
  );
});

it('a kind that comes back with another scope or plural has another view', () => {
  const forms = [{}, { namespaced: false }, { plural: 'things' }].map((form) =>
    resource('a.example.com/v1', 'Thing', form),
  );
  expect(new Set(forms.map((form) => settingsHash({}, form))).size).toBe(2);
  expect(
    new Set([{}, { plural: 'thingies' }].map((form) => settingsHash({}, resource('a/v1', 'Thing', form)))).size,
  ).toBe(2);
});

it('Secrets with and without their values are other views than they would be in the open', () => {
  // Of another version it would be a kind like any other.
  const secrets = (version: string) => resource(version, 'Secret');
  const [whole, metadata] = [{}, { metadataOnly: true }];
  expect([isEncrypted('v1/Secret', whole), isEncrypted('v1/Secret', metadata), isEncrypted('v1/Pod', whole)]).toEqual([
    true,
    false,
    false,
  ]);
  const hashes = [whole, metadata].flatMap((each) => [
    settingsHash(each, secrets('v2')),
    settingsHash(each, secrets('v1')),
  ]);
  expect(new Set(hashes).size).toBe(4);
});

it('the metadata of Secrets comes without the copy that kubectl made of the whole', () => {
  const object = () => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: 'n',
      uid: 'u',
      resourceVersion: '1',
      annotations: { [LAST_APPLIED]: '{"data":{"a":"c2VjcmV0"}}', kept: 'yes' },
    },
  });
  const transform = transformOf({ metadataOnly: true }, 'v1/Secret');
  const [parsed, text] = [object(), transform.text(JSON.stringify(object()))];
  transform.object(parsed);
  expect(parsed.metadata.annotations).toEqual({ kept: 'yes' });
  expect(JSON.parse(text)).toEqual(parsed);
  // Encrypted they are as the apiserver has them, and so are others.
  for (const [settings, kind] of [
    [{}, 'v1/Secret'],
    [{ metadataOnly: true }, 'v1/ConfigMap'],
  ] as const) {
    expect(transformOf(settings, kind).text(JSON.stringify(object()))).toBe(JSON.stringify(object()));
  }
});
