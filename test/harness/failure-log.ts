import { afterAll, afterEach, beforeEach } from 'vitest';
import { forgetEnded, writtenLately } from './program.ts';

// A setup file of all system tests: when a test or the preparation of a file fails, it shows the last lines of each
// program that ran during it.
beforeEach(forgetEnded);
afterEach(({ task }) => {
  if (task.result?.state === 'fail') show(task.name);
});
// oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern which fixtures a hook needs
afterAll(({}, file) => {
  if ([file, ...file.tasks].some(({ type, result }) => type === 'suite' && result?.errors)) show(file.name);
});

function show(what: string): void {
  process.stderr.write(`\n${what}\n${writtenLately()}\n`);
}
