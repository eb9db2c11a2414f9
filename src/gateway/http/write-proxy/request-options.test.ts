import { describe, expect, it } from 'vitest';
import { StatusError } from '../cache-api/kubernetes-status.ts';
import { proxiedRequest } from './proxied-request.ts';
import { requestOptions, type RequestOptions } from './request-options.ts';

const POD = '/api/v1/namespaces/a/pods/x';

function optionsOf(method: string, url: string, body: string | Buffer = ''): RequestOptions {
  const { pathname, searchParams } = new URL(`http://g${url}`);
  return requestOptions(proxiedRequest(method, pathname, searchParams, 'u'), Buffer.from(body));
}

const refusal = (body: string | Buffer): unknown => {
  try {
    return optionsOf('DELETE', POD, body);
  } catch (error) {
    return error instanceof StatusError ? error.status : error;
  }
};

describe('the options of a proxied request', () => {
  it.each([
    ['POST', `${POD}/eviction`, '{"deleteOptions":{"dryRun":["All"]}}', true],
    ['POST', `${POD}/eviction?dryRun=All`, '{}', true],
    ['POST', `${POD}/eviction`, '{"dryRun":["All"]}', false],
    ['POST', '/api/v1/namespaces/a/configmaps', '{"deleteOptions":{"dryRun":["All"]}}', false],
    ['POST', '/api/v1/namespaces/a/configmaps', '{"dryRun":["All"],"dryRun":1}', false],
    ['DELETE', POD, '{"dryRun":["All"]}', true],
    ['DELETE', POD, '{"dryRun":[]}', false],
    ['DELETE', `${POD}?dryRun=All`, '', true],
    ['DELETE', `${POD}?dryRun=All`, '{}', true],
    ['DELETE', '/api/v1/namespaces/a/pods', '{"dryRun":"All"}', true],
    ['PATCH', `${POD}?dryRun=All`, '{}', true],
    ['PUT', POD, '{"dryRun":["All"]}', false],
  ])('%s %s %s mention a dry run: %s', (method, url, body, mentionsDryRun) => {
    expect(optionsOf(method, url, body)).toMatchObject({ mentionsDryRun });
  });

  it('name the UID that a delete is for', () => {
    expect(optionsOf('POST', `${POD}/eviction`, '{"deleteOptions":{"preconditions":{"uid":"u"}}}').uid).toBe('u');
    expect(optionsOf('POST', `${POD}/eviction`, '{"deleteOptions":null}').uid).toBeUndefined();
    expect(optionsOf('POST', `${POD}/eviction`, '{"deleteOptions":{"preconditions":{"uid":7}}}').uid).toBeUndefined();
  });

  it.each<[string, string | Buffer, RegExp]>([
    ['a field twice', '{"dryRun":["All"],"dryRun":[]}', /occurs twice/],
    ['a field twice, once in other characters', String.raw`{"dryRun":["All"],"dryR\u0075n":[]}`, /occurs twice/],
    ['a field of a field twice', '{"preconditions":{"uid":"a","uid":"b"}}', /occurs twice/],
    ['a field in another case', '{"DryRun":["All"]}', /"DryRun" is in another case/],
    ['a field in Greek-looking characters', '{"\u212Aind":"x"}', /is in another case/],
    ['two fields that differ in case', '{"x":1,"X":2}', /differ in case/],
    ['more after the end', '{} {"dryRun":["All"]}', /one JSON text/],
    ['YAML', 'dryRun: [All]', /one JSON text/],
    ['UTF-16', Buffer.from('{}', 'utf16le'), /one JSON text/],
    ['a byte order mark', '\uFEFF{}', /one JSON text/],
    ['wrong UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), /one JSON text/],
    ['a list', '[]', /not an object/],
  ])('that two parsers may read differently are refused: %s', (_name, body, message) => {
    expect(refusal(body)).toMatchObject({ code: 400, message: expect.stringMatching(message) as string });
  });

  it('have a bound, and any depth', () => {
    expect(refusal(JSON.stringify({ x: 'x'.repeat(64 * 1024) }))).toMatchObject({ code: 413 });
    const deep = `{"x":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
    expect(optionsOf('DELETE', POD, deep)).toEqual({ mentionsDryRun: false, uid: undefined });
    expect(optionsOf('DELETE', POD, String.raw`{"a\\":"b\":","c":{"a":"{\"a\":"}}`).mentionsDryRun).toBe(false);
  });
});
