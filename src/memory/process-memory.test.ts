import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

const [MEMORY, YOUNG] = ['./process-memory.ts', './young-generation.ts'].map(
  (file) => new URL(file, import.meta.url).href,
);

/** Runs a program that prints a list of numbers. */
function run(program: string): number[] {
  const before = `
    import { setTimeout as sleep } from 'node:timers/promises';
    import { keepMemorySmall, releaseMemory } from '${MEMORY}';
    import { youngGenerationBytes } from '${YOUNG}';
    const residentMb = () => process.memoryUsage.rss() / 1e6;
    const youngMb = () => youngGenerationBytes() / 2 ** 20;
    const garbage = () => JSON.parse('[' + Array.from({ length: 100_000 }, (_, at) => '{"at":' + at + '}').join() + ']');
    const work = (ms) => { for (const from = performance.now(); performance.now() < from + ms;) garbage(); };`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', before + program], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return JSON.parse(stdout) as number[];
}

it('a process returns the memory of garbage, and leaves no gc() behind', () => {
  const [before = 0, after = Infinity, left] = run(`
    garbage();
    const before = residentMb();
    releaseMemory();
    const { runInNewContext } = await import('node:vm');
    console.log(JSON.stringify([before, residentMb(), [typeof gc, runInNewContext('typeof gc')].indexOf('function')]));`);
  expect(after).toBeLessThan(before - 10);
  expect(left).toBe(-1);
});

it('a process gives memory back once it has no work, and has a large young generation at work', () => {
  const [busy = 0, idle = Infinity, youngIdle = Infinity, youngBusy = 0] = run(`
    keepMemorySmall();
    work(500);
    const busy = residentMb();
    // After little work the young generation is small before anything was given back.
    for (let tries = 0; (residentMb() > busy - 10 || youngMb() > 4) && tries < 300; tries += 1) await sleep(100);
    const [idle, youngIdle] = [residentMb(), youngMb()];
    for (let tries = 0; youngMb() < 6 && tries < 300; tries += 1) {
      work(50);
      await sleep(1);
    }
    // While V8 marks, the young generation may exceed its limit.
    const sizes = [];
    for (let at = 0; at < 15; at += 1) {
      work(20);
      sizes.push(youngMb());
      await sleep(1);
    }
    console.log(JSON.stringify([busy, idle, youngIdle, sizes.sort((a, b) => a - b)[7]]));`);
  expect(idle).toBeLessThan(busy - 10);
  expect(youngIdle).toBeLessThanOrEqual(4);
  expect(youngBusy).toBeGreaterThanOrEqual(6);
  expect(youngBusy).toBeLessThanOrEqual(9);
});
