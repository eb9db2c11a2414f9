import { expect, it } from 'vitest';
import { LimitedLines } from './limited-lines.ts';

it('lines of a subject are written at a rate, and the next line says how many were left out', () => {
  let nowMs = 0;
  const lines = new LimitedLines({ now: () => nowMs });
  const written: [string, number | undefined][] = [];
  const write = (subject: string, count: number): void => {
    for (let at = 0; at < count; at += 1) {
      lines.write(subject, ({ leftOut }) => written.push([subject, leftOut]));
    }
  };
  write('a', 1000);
  expect(written).toEqual(Array.from({ length: 10 }, () => ['a', undefined]));
  write('b', 1);
  expect(written.at(-1)).toEqual(['b', undefined]);
  nowMs += 1000;
  write('a', 5);
  expect(written.at(-1)).toEqual(['a', 990]);
  nowMs += 60_000;
  write('a', 2);
  expect(written.slice(-2)).toEqual([
    ['a', 4],
    ['a', undefined],
  ]);
});

it('lines are bounded however many subjects they are about', () => {
  let nowMs = 0;
  const lines = new LimitedLines({ now: () => nowMs });
  let written = 0;
  for (let at = 0; at < 100_000; at += 1) lines.write(`subject ${at % 5000}`, () => (written += 1));
  expect(written).toBe(10_000 + 10);
  nowMs += 60_000;
  // All are quiet now, so each has a limit of its own again.
  written = 0;
  for (let at = 6000; at < 6010; at += 1) lines.write(`subject ${at}`, () => (written += 1));
  expect(written).toBe(10);
});

it('subjects that are gone for good make room for others, also those with lines that were left out', () => {
  let nowMs = 0;
  const lines = new LimitedLines({ now: () => nowMs });
  for (let at = 0; at < 1000; at += 1) for (let line = 0; line < 20; line += 1) lines.admit(`gone ${at}`);
  nowMs += 60_000;
  const admitted = Array.from({ length: 500 }, (_, at) => lines.admit(`new ${at}`));
  expect(admitted.filter((each) => each === undefined)).toEqual([]);
});
