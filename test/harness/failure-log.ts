import { afterEach, beforeEach } from 'vitest';
import { forgetEnded, writtenLately } from './program.ts';

// A setup file of all system tests: when a test fails, it shows the last lines of each program that ran during it.
beforeEach(forgetEnded);
afterEach(({ task }) => {
  if (task.result?.state === 'fail') process.stderr.write(`\n${task.name}\n${writtenLately()}\n`);
});
