import { expect, it } from 'vitest';
import { systemClock } from '../../../core/index.ts';
import { ReaderRateLimit } from './rate-limit.ts';

it('the functions of a namespace have one rate of reads, however many they are, and those of others have their own', () => {
  const limit = new ReaderRateLimit(2, { ...systemClock, now: () => 0 });
  const taken = Array.from({ length: 50 }, (_, at) => limit.take(`a.${at}`));
  expect(taken.filter(Boolean)).toHaveLength(4);
  for (const other of ['b.0', 'configured', 'person']) expect(limit.take(other)).toBe(true);
});
