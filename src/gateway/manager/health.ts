import { messageOf } from '../../core/index.ts';

/** A named check: undefined when all is well, else what is wrong. */
export type HealthCheck = () => string | undefined;

export interface HealthReport {
  readonly healthy: boolean;
  /** One line for each check, in the apiserver's form: `[+]redis ok`, `[-]redis failed: reason`. */
  readonly lines: readonly string[];
}

/** Runs the checks. A check that throws has failed. */
export function report(checks: ReadonlyMap<string, HealthCheck>): HealthReport {
  let healthy = true;
  const lines = [...checks].map(([name, check]) => {
    const reason = failureOf(check);
    if (reason === undefined) return `[+]${name} ok`;
    healthy = false;
    return `[-]${name} failed: ${reason}`;
  });
  return { healthy, lines };
}

function failureOf(check: HealthCheck): string | undefined {
  try {
    return check();
  } catch (error) {
    return messageOf(error);
  }
}
