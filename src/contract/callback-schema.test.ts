import { expect, it } from 'vitest';
import { callbackSchema } from './callback-schema.ts';

const body = {
  version: 'v1',
  controller: 'web',
  token: 't',
  namespace: 'a',
  name: 'b',
  run: 1,
  result: { status: 'done' },
};

it('a callback is about an object that can be', () => {
  expect(callbackSchema.parse(body)).toEqual(body);
  expect(callbackSchema.safeParse({ ...body, name: 'system:node' }).success).toBe(true);
  for (const name of ['..', '.', '', 'a/b', 'a%2fb'])
    expect(callbackSchema.safeParse({ ...body, name }).success).toBe(false);
  for (const namespace of ['..', '', 'a/b', 'A'])
    expect(callbackSchema.safeParse({ ...body, namespace }).success).toBe(false);
});
