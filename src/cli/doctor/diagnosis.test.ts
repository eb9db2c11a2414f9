import { expect, it } from 'vitest';
import { countOf, describeSections, section } from './diagnosis.ts';

it('shows each part with its lines, and how many are wrong', async () => {
  const sections = [
    await section('Redis', async (findings) => {
      findings.ok('it answers');
      findings.warning('it keeps nothing.');
    }),
    await section('queues', async () => {}),
    await section('apiserver', async (findings) => {
      findings.ok('it answered');
      throw new Error('and\nno more');
    }),
  ];
  expect(describeSections(sections)).toBe(
    [
      'Redis',
      '  ok       it answers',
      '  warning  it keeps nothing',
      '',
      'apiserver',
      '  ok       it answered',
      '  problem  and no more',
      '',
      '1 problem, 1 warning',
      '',
    ].join('\n'),
  );
  expect(countOf(sections, 'problem')).toBe(1);
});
