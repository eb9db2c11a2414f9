import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { patiently } from './progress.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function terminal(isTTY: boolean): { readonly isTTY: boolean; readonly written: string[]; write(text: string): true } {
  const written: string[] = [];
  return { isTTY, written, write: (text) => (written.push(text), true) };
}

it('a terminal shows a wait with its seconds, and no longer than it lasts', async () => {
  const screen = terminal(true);
  const wait = Promise.withResolvers<string>();
  const waited = patiently(wait.promise, 'the gateway', screen);
  await vi.advanceTimersByTimeAsync(2500);
  expect(screen.written).toEqual([
    '\rwaiting for the gateway: 1 s\u001b[K\r',
    '\rwaiting for the gateway: 2 s\u001b[K\r',
  ]);
  wait.resolve('answer');
  expect(await waited).toBe('answer');
  expect(screen.written.at(-1)).toBe('\r\u001b[K\r');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(screen.written).toHaveLength(3);
});

it('a wait below a second shows nothing', async () => {
  const screen = terminal(true);
  const waited = patiently(Promise.resolve(1), 'the gateway', screen);
  await vi.advanceTimersByTimeAsync(5000);
  await waited;
  expect(screen.written).toEqual([]);
});

it('a file gets one line after five seconds, and the error of the wait is thrown', async () => {
  const file = terminal(false);
  const wait = Promise.withResolvers<never>();
  const waited = patiently(wait.promise, 'the gateway', file);
  const failed = expect(waited).rejects.toThrow('gone');
  await vi.advanceTimersByTimeAsync(20_000);
  expect(file.written).toEqual(['still waiting for the gateway\n']);
  wait.reject(new Error('gone'));
  await failed;
});
