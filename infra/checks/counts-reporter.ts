import { stripVTControlCharacters } from 'node:util';
import type { Reporter, SerializedError, TestCase, TestModule, TestSuite } from 'vitest/node';

/**
 * Prints the names of what failed and why and, as the very last line of the process, `N passed, N failed` (with `, N
 * skipped` when there are any). The numbers are tests. Whatever else went wrong counts as a failure too: a file that
 * did not load, a hook, an unhandled error, a global setup or teardown, a test that never finished, or no test at all.
 * The exit code agrees with the line. Before it stand the run's time and what the run has left out.
 */
export class CountsReporter implements Reporter {
  #passed = 0;
  #skipped = 0;
  #failures: string[] = [];
  readonly #startedAtMs = performance.now();
  readonly #leftOut: readonly string[];

  /** @param leftOut files that this run does not have, and the command that runs them. */
  constructor(leftOut: readonly string[] = []) {
    this.#leftOut = leftOut;
  }

  onInit(): void {
    // Trap: vitest goes on printing after onTestRunEnd, and a global teardown can still fail. Only at exit is it known
    // that no line will follow; writing to stdout is synchronous then, to files, pipes and terminals alike.
    process.once('exit', (code) => {
      process.stdout.write(`${this.summary(code).join('\n')}\n`);
      if (this.#failures.length > 0 && code === 0) process.exitCode = 1;
    });
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    for (const module of modules) this.#countModule(module);
    for (const error of unhandled) this.#failures.push(`unhandled error: ${firstLine(error)}`);
  }

  /** The closing lines, given the exit code that vitest chose. */
  summary(exitCode: number): string[] {
    if (this.#passed + this.#failures.length === 0) this.#failures.push('no test was executed');
    if (exitCode !== 0 && this.#failures.length === 0) this.#failures.push(`vitest exited with ${exitCode}`);

    const skipped = this.#skipped > 0 ? `, ${this.#skipped} skipped` : '';
    return [
      `took ${this.#minutes()}`,
      ...this.#leftOut.map((what) => `left out: ${what}`),
      ...this.#failures.map((failure) => `FAILED ${failure}`),
      `${this.#passed} passed, ${this.#failures.length} failed${skipped}`,
    ];
  }

  #minutes(): string {
    const seconds = Math.round((performance.now() - this.#startedAtMs) / 1000);
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }

  #countModule(module: TestModule): void {
    this.#countSuite(module, module.relativeModuleId);
    for (const suite of module.children.allSuites()) {
      this.#countSuite(suite, `${module.relativeModuleId} > ${suite.fullName}`);
    }
    for (const test of module.children.allTests()) this.#countTest(test);
    if (module.state() === 'queued' || module.state() === 'pending') {
      this.#failures.push(`${module.relativeModuleId}: the file did not finish`);
    }
  }

  /** Errors of a suite are those of its hooks, errors of a file also those of loading it; no test carries them. */
  #countSuite(suite: TestModule | TestSuite, name: string): void {
    const [error] = suite.errors();
    if (error !== undefined) this.#failures.push(`${name}: ${firstLine(error)}`);
  }

  #countTest(test: TestCase): void {
    const { state, errors } = test.result();
    const name = `${test.module.relativeModuleId} > ${test.fullName}`;
    switch (state) {
      case 'passed':
        this.#passed += 1;
        break;
      case 'skipped':
        this.#skipped += 1;
        break;
      case 'failed':
        this.#failures.push(`${name}${why(errors?.[0], test.module.relativeModuleId)}`);
        break;
      case 'pending':
        this.#failures.push(`${name}: did not finish`);
        break;
    }
  }
}

/** A test may throw anything: what is not an Error need not have a message. */
type Thrown = { readonly message?: unknown; readonly stack?: string };

function messageOf(error: Thrown): string {
  return typeof error.message === 'string' ? error.message : JSON.stringify(error);
}

const SHOWN_LENGTH = 600;

/** What the test said, on one line, and where in its file: of a log that was cut, the end may be all there is. */
function why(error: Thrown | undefined, file: string): string {
  if (error === undefined) return '';
  const message = stripVTControlCharacters(messageOf(error)).replaceAll(/\s+/g, ' ').trim();
  const half = SHOWN_LENGTH / 2;
  const shown = message.length > SHOWN_LENGTH ? `${message.slice(0, half)} ... ${message.slice(-half)}` : message;
  const [line] = /^\d+/.exec((error.stack ?? '').split(`${file}:`)[1] ?? '') ?? [];
  return `: ${shown}${line === undefined ? '' : ` (line ${line})`}`;
}

function firstLine(error: Thrown): string {
  return messageOf(error).split('\n', 1).join('');
}
