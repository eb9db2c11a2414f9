import { afterEach, expect, it } from 'vitest';
import { decodeResultLine } from '../../../src/contract/outcome-schema.ts';
import { generateSecret, importSecret, RESULT_STREAM, sign, type Trigger } from '../../../src/contract/index.ts';
import { TestProcess } from '../../harness/process.ts';

let served: TestProcess | undefined;
afterEach(() => served?.kill());

it('a function that dies has sent the results of the runs that had ended', async () => {
  const secret = generateSecret();
  served = new TestProcess('test/harness/slow-function.ts', [], { PORT: '0', LEVELHOOK_SIGNING_SECRETS: secret });
  const { url } = await served.line(({ msg }) => msg === 'listening');
  const body = JSON.stringify({
    version: 'v1',
    controller: 'slow',
    deadline: new Date(Date.now() + 30_000).toISOString(),
    remainingSeconds: 30,
    cache: { views: {} },
    requests: ['a', 'fast', 'b'].map((name, at) => ({ name, attempt: 1, run: 5 + at, reasons: [] })),
  } satisfies Trigger);
  const signed = await sign([await importSecret(secret)], { id: 'id', nowMs: Date.now(), body });
  const headers = { ...signed, accept: `${RESULT_STREAM}, application/json` };
  const answer = await fetch(String(url), { method: 'POST', headers, body });
  expect(answer.status).toBe(200);
  const reader = answer.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  const text = new TextDecoder().decode(value);
  expect(text.endsWith('\n')).toBe(true);
  expect(decodeResultLine(text)).toEqual({ run: 6, result: { status: 'done', writes: [] } });
  const cut = expect(reader?.read()).rejects.toThrow();
  await served.kill('SIGKILL');
  await cut;
});
