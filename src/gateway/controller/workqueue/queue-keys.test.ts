import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { queueKeys } from './queue-keys.ts';

const { prefix, script: _, ...keys } = queueKeys({ keyPrefix: 'levelhook', clusterId: 'c' }, 'web');
const names = Object.values(keys).map((key) => key.slice(prefix.length));

it('a queue keeps its names in Redis, so that a new release finds the entries of the one before', () => {
  expect(names.toSorted()).toEqual([
    ':backlog',
    ':bucket',
    ':busies:',
    ':dead',
    ':debounced',
    ':failing',
    ':histories',
    ':history:',
    ':in-flight',
    ':key:',
    ':pause-ends',
    ':paused:',
    ':pauses',
    ':queue',
    ':queued',
    ':recent',
    ':related',
    ':related-index',
    ':related-views',
    ':resting',
    ':rights',
    ':runs',
    ':samples',
    ':slots',
    ':taken:',
    ':timers',
    ':web:',
    ':web:active',
    ':web:meta',
    ':web:wait',
    ':writes:',
  ]);
});

it('the scripts of a queue build no other names', () => {
  const folder = new URL('records/lua/', import.meta.url);
  const texts = readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8'));
  const built = texts.flatMap((text) => [...text.matchAll(/(?:prefix|KEYS\[1\]) \.\. '(:[a-z-]+:?)/g)]);
  expect(built.length).toBeGreaterThan(20);
  expect(built.map(([, name]) => name).filter((name) => !names.includes(name ?? ''))).toEqual([]);
});
