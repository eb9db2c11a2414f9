import { printable } from '../core/index.ts';

const CLEAR_LINE = '\u001b[K';

/** The terminal of a command. */
export type Terminal = Pick<NodeJS.WriteStream, 'isTTY' | 'write'>;

/**
 * Shows on stderr what a command waits for. At a terminal that is a line with the seconds, from the first second to the
 * end of the wait. Elsewhere it is one line after five seconds.
 */
export async function patiently<T>(wait: Promise<T>, what: string, terminal: Terminal = process.stderr): Promise<T> {
  let seconds = 0;
  const timer = terminal.isTTY
    ? setInterval(() => progress(`waiting for ${what}: ${(seconds += 1)} s`, terminal), 1000)
    : setTimeout(() => terminal.write(printable(`still waiting for ${what}\n`)), 5000);
  try {
    return await wait;
  } finally {
    clearInterval(timer);
    if (seconds > 0) progress('', terminal);
  }
}

/** Replaces the line of progress on stderr, which only a terminal has. Empty: there is none any more. */
export function progress(text: string, terminal: Terminal = process.stderr): void {
  // The next output begins in the first column, too.
  if (terminal.isTTY) terminal.write(`\r${printable(text)}${CLEAR_LINE}\r`);
}
