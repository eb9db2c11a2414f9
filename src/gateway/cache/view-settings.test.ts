import { expect, it } from 'vitest';
import { isSealed, settingsHash, transformOf } from './view-settings.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

it('views that are in use keep their names', () => {
  // Another hash is another view: everything is listed anew and every key runs. Do not change these in passing.
  expect(settingsHash({}, undefined, 'v1/Pod')).toBe(settingsHash({}));
  expect(settingsHash({})).toBe('88HEK-j4I3');
  expect(settingsHash({ metadataOnly: true, labelSelector: 'a=b' }, 'web', 'v1/ConfigMap')).toBe('52W--PQOaj');
});

it('Secrets with and without their values are other views than they would be in the open', () => {
  const [whole, metadata] = [{}, { metadataOnly: true }];
  expect([isSealed('v1/Secret', whole), isSealed('v1/Secret', metadata), isSealed('v1/Pod', whole)]).toEqual([
    true,
    false,
    false,
  ]);
  const hashes = [whole, metadata].flatMap((each) => [settingsHash(each), settingsHash(each, undefined, 'v1/Secret')]);
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
