import { expect, it } from 'vitest';
import { RunLines } from './run-lines.ts';

const TRIGGER = {
  msg: 'trigger',
  time: '2026-01-01T00:00:00.000Z',
  controller: 'web',
  key: 'a/b',
  reconcileID: 'r1',
  reasons: [],
  durationMs: 5,
  outcome: 'done',
  attempt: 1,
  writes: 0,
};
const LINE = { level: 'info', time: 'x', controller: 'web', key: 'a/b', run: 3, reconcileID: 'r1', msg: 'here' };

function shown() {
  let nowMs = 0;
  const printed: string[] = [];
  const said: string[] = [];
  const lines = new RunLines({
    print: (line) => printed.push(line.map(({ text }) => text).join('')),
    say: (line) => said.push(line),
    nowMs: () => nowMs,
  });
  return { lines, printed, said, pass: (ms: number) => (nowMs += ms) };
}

it("the log lines of a run stand below its trigger, with the function's own fields", () => {
  const { lines, printed, said } = shown();
  lines.fn('web', { json: { ...LINE, size: 3, of: 'x' } });
  lines.fn('web', { json: { ...LINE, key: 'a/c', msg: 'of another key of the same trigger' } });
  expect(printed).toEqual([]);
  lines.gateway({ json: { ...TRIGGER, writes: 7, wrote: ['v1/Pod a/x', 'v1/Pod a/y'] } });
  expect(printed[0]).toContain('a/b');
  expect(printed.slice(1)).toEqual(['    wrote v1/Pod a/x, v1/Pod a/y and 5 more', '    info here size=3 of=x']);
  lines.gateway({ json: { ...TRIGGER, key: 'a/c' } });
  expect(printed.at(-1)).toBe('    info of another key of the same trigger');
  expect(said).toEqual([]);
});

it('a stack is shown once, without the frames of Node, and the message of a failed run by its trigger', () => {
  const { lines, printed } = shown();
  const failed = {
    ...LINE,
    level: 'error',
    msg: 'reconcile failed',
    error: 'no',
    stack: 'Error: no\n  at a (src/a.ts:1:2)\n  at b (node:internal/process:3:4)',
  };
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    lines.fn('web', { json: failed });
    lines.gateway({ json: { ...TRIGGER, attempt, outcome: 'error', error: 'no' } });
  }
  expect(printed.filter((line) => line.startsWith('    '))).toEqual(['    no', '      at a (src/a.ts:1:2)', '    no']);
  lines.fn('web', { json: { ...LINE, level: 'error', msg: 'the shop is closed', stack: failed.stack } });
  lines.gateway({ json: TRIGGER });
  expect(printed.at(-1)).toBe('    error the shop is closed');
});

it('lines of a run whose trigger never comes are shown in the end, and lines of no run at once', () => {
  const { lines, printed, said, pass } = shown();
  lines.fn('web', { json: LINE });
  pass(60_001);
  lines.fn('web', { json: { ...LINE, reconcileID: 'r2' } });
  expect(printed).toEqual(['    info here']);
  lines.fn('web', { text: 'plain' });
  lines.fn('web', { json: { level: 'info', msg: 'quiet' } });
  lines.gateway({ json: { level: 40, msg: 'careful', error: 'x' } });
  expect(said).toEqual(['function web: plain', 'gateway: careful (x)']);
});

it('a field of any depth is one line', () => {
  const { lines, printed } = shown();
  const deep = JSON.parse(`${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`) as object;
  lines.fn('web', { json: { ...LINE, deep, list: [{ a: { b: { c: ['d'] } } }, 'e\nf'] } });
  lines.gateway({ json: TRIGGER });
  expect(printed[1]).toBe(
    "    info here deep={ a: { a: { a: { a: { a: [Object] } } } } } list=[ { a: { b: { c: [ 'd' ] } } }, 'e\\nf' ]",
  );
});
