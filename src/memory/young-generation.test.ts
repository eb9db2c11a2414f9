import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

const MODULE = new URL('./young-generation.ts', import.meta.url).href;

/**
 * The median size of the young generation, in MB, of a process that makes objects and keeps many of them alive. While
 * V8 marks, the young generation may exceed its limit, with V8's own option as well.
 */
function medianMb(before: string, option = '--no-warnings'): number {
  const program = `
    import { getHeapSpaceStatistics } from 'node:v8';
    ${before}
    const young = () => getHeapSpaceStatistics().find((each) => each.space_name === 'new_space').space_size / 2 ** 20;
    const kept = [];
    const sizes = [];
    for (let at = 0; at < 1_000_000; at += 1) {
      kept[at % 100_000] = { at, text: 'object ' + at, list: [at] };
      if (at % 10_000 === 0) sizes.push(young());
    }
    console.log(sizes.sort((a, b) => a - b)[sizes.length / 2]);`;
  const { stdout, stderr } = spawnSync(process.execPath, [option, '--input-type=module', '-e', program], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return Number(stdout);
}

it('the young generation grows to 8 MB and no further', () => {
  expect(medianMb('')).toBeGreaterThan(16);
  const limited = medianMb(`(await import('${MODULE}')).limitYoungGeneration();`);
  expect(limited).toBeGreaterThan(6);
  expect(limited).toBeLessThanOrEqual(9);
});

it('the young generation says that it cannot have 8 MB when an option of the process is against it', () => {
  const check = `if ((await import('${MODULE}')).limitYoungGeneration()) throw new Error('8 MB');`;
  expect(medianMb(check, '--max-semi-space-size=1')).toBeLessThanOrEqual(3);
});
