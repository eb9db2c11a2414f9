import { describe, expect, it } from 'vitest';
import { pprofInProcess } from './pprof-process.ts';
import type { V8Profile } from './pprof.ts';

const never = new AbortController().signal;
const profile = (json: string): V8Profile => ({ kind: 'heap', json, endWallMs: 0, seconds: 1 });
const HEAD = '{"callFrame":{"functionName":"f","url":"","lineNumber":1},"selfSize":1,"children":[]}';

describe('pprofInProcess', () => {
  it('converts, and says what is wrong with what cannot be converted', async () => {
    const bytes = await pprofInProcess(profile(`{"head":${HEAD}}`), never);
    // gzip
    expect([...bytes.subarray(0, 2)]).toEqual([0x1f, 0x8b]);
    await expect(pprofInProcess(profile('{"head":1}'), never)).rejects.toThrow('it is wrong at head: ');
    await expect(pprofInProcess(profile('none'), never)).rejects.toThrow('not valid JSON');
  });

  it('ends with a profile that takes too much memory, and this process goes on', async () => {
    // 16 MB: each object is far larger than its text.
    const json = `{"head":${HEAD.replace('[]', `[${Array.from({ length: 190_000 }, () => HEAD).join(',')}]`)},"more":[${'[],'.repeat(5e6)}0]}`;
    await expect(pprofInProcess(profile(json), never)).rejects.toThrow('MB of memory');
  });

  it('ends at a signal', async () => {
    const abort = new AbortController();
    const converted = pprofInProcess(profile(`{"head":${HEAD}}`), abort.signal);
    abort.abort(new Error('hung up'));
    await expect(converted).rejects.toThrow('hung up');
    await expect(pprofInProcess(profile(`{"head":${HEAD}}`), abort.signal)).rejects.toThrow('hung up');
  });
});
