import type { TestProcess } from '../harness/process.ts';

/** Lets `liveHeap` ask a process; loopback, any free port. */
export const INSPECTABLE = '--inspect=127.0.0.1:0';

/**
 * The bytes on a process's JavaScript heap that are in use, after a collection: what it holds, whatever V8 keeps beside
 * it. Through the inspector, so that the process needs no code for it.
 */
export async function liveHeap(process: TestProcess): Promise<number> {
  const line = await process.line(({ text }) => /Debugger listening on ws:/.test(String(text)));
  const [, url = ''] = /(ws:\S+)/.exec(String(line['text'])) ?? [];
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true });
    socket.addEventListener('error', reject, { once: true });
  });
  let last = 0;
  const call = (method: string): Promise<Record<string, number>> => {
    const id = (last += 1);
    const { promise, resolve } = Promise.withResolvers<Record<string, number>>();
    socket.addEventListener('message', ({ data }) => {
      const answer = JSON.parse(String(data)) as { id?: number; result: Record<string, number> };
      if (answer.id === id) resolve(answer.result);
    });
    socket.send(JSON.stringify({ id, method }));
    return promise;
  };
  try {
    await call('HeapProfiler.collectGarbage');
    return (await call('Runtime.getHeapUsage'))['usedSize'] ?? NaN;
  } finally {
    socket.close();
  }
}
