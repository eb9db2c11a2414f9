import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Comparison } from './comparison.ts';
import { withSection } from './results.ts';

/** Of rounds like the recorded ones of `failover`: one of the first arm, three of the second. */
function recorded(): Comparison {
  const rows = [
    { label: 'longest wait of a change, s', figures: ['kill'], main: true, panel: 'longest wait, s' },
    { label: 'lists; changes not seen', figures: ['lists', 'unseen'] },
    { label: 'memory, MB', figures: ['own', 'shared'], sum: true },
    { label: 'a measure without figures', figures: ['nothing'], panel: 'never' },
  ];
  const arms = { subject: 'levelhook', to: ['controller-runtime'] };
  const found = new Comparison(['controller-runtime', 'levelhook'], rows, arms);
  found.add('controller-runtime', { kill: 17.7, lists: 2, unseen: 0, own: 6.59, shared: 25.4, 'all.stolen': 0 });
  for (const [at, kill] of [13.2, 14.2, 13.7].entries()) {
    found.add('levelhook', { kill, lists: 0, unseen: 0, own: 82.3, shared: 61.7, 'all.foreign': at + 1 });
  }
  return found;
}

it('a comparison of benchmarks prints medians, sums and ratios, and leaves out a measure without figures', () => {
  expect(recorded().table().split('\n')).toEqual([
    '|                             | controller-runtime |  levelhook | to controller-runtime |',
    '| --------------------------- | -----------------: | ---------: | --------------------: |',
    '| longest wait of a change, s |               17.7 |       13.7 |                  0.77 |',
    '| lists; changes not seen     |         2.00, 0.00 | 0.00, 0.00 |                       |',
    '| memory, MB                  |               32.0 |        144 |                  4.50 |',
  ]);
  expect(recorded().table('main').split('\n')).toHaveLength(3);
});

it('a comparison of benchmarks says what the machine did meanwhile', () => {
  expect(recorded().machine()).toBe('steal 0 % (at most 0 %), foreign CPU 2 % (at most 3 %)');
});

it('a comparison of benchmarks must not be saved when other programs used more than 5 % of the processors', () => {
  const found = recorded();
  expect(found.refusal()).toBeUndefined();
  found.add('controller-runtime', { 'all.foreign': 20.4 });
  expect(found.refusal()).toBeUndefined();
  for (const foreign of [5.6, 30, 30]) found.add('controller-runtime', { 'all.foreign': foreign });
  expect(found.refusal()).toMatch(/^other programs used 6 % of the processors/);
});

it('a plot of benchmarks has a bar for each arm with its median and range, and escapes texts', () => {
  const svg = recorded().plot('Failover of <two> "replicas"');
  expect(svg).toContain('aria-label="Failover of &lt;two> &quot;replicas&quot;"');
  expect(svg).toContain('>longest wait, s</text>');
  expect(svg).not.toContain('never');
  expect(svg.match(/<rect class="(?:bar|subject)"/g)).toEqual(['<rect class="bar"', '<rect class="subject"']);
  const widths = [...svg.matchAll(/<rect class="(?:bar|subject)"[^>]* width="([0-9.]+)"/g)].map(([, width]) => width);
  expect(Number(widths[1]) / Number(widths[0])).toBeCloseTo(13.7 / 17.7, 2);
  const ranges = [...svg.matchAll(/<line class="range" x1="([0-9.]+)" x2="([0-9.]+)"/g)];
  expect(ranges.map(([, from, to]) => Number(to) > Number(from))).toEqual([false, true]);
});

it('RESULTS.md has a section for the figures of each benchmark, which can be replaced', () => {
  const results = readFileSync('test/bench/RESULTS.md', 'utf8');
  const names = ['line', 'rollout', 'namespaces', 'endpoints', 'nodes', 'failover', 'replicas', 'rest', 'webhooks'];
  for (const name of names) {
    const changed = withSection(results, name, 'figures');
    expect(changed).toContain(`<!-- bench ${name} -->\n\nfigures\n\n<!-- end of bench ${name} -->`);
    expect(withSection(changed, name, 'figures')).toBe(changed);
  }
  expect(() => withSection(results, 'nothing', '')).toThrow('no section');
});

it('the figures in the README are those of RESULTS.md', () => {
  const rows = (file: string): string[][] =>
    [...readFileSync(file, 'utf8').matchAll(/^\|(.*)\|$/gm)].map(([, row = '']) =>
      row.split('|').map((cell) => cell.trim()),
    );
  const results = rows('test/bench/RESULTS.md');
  const shown = rows('README.md').filter(([, figure = '']) => /^[\d.]+$/.test(figure));
  expect(shown).toHaveLength(4);
  for (const [label, levelhook = '', operator = ''] of shown) {
    const found = results.filter((cells) => cells.includes(levelhook) && cells.includes(operator));
    expect(found, label).toHaveLength(1);
  }
});
