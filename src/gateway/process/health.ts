import { messageOf } from '../../core/index.ts';

/** A problem that a person should mend although the check passes. */
export interface HealthWarning {
  readonly warning: string;
}

/** A named check: returns undefined when all is well, and a text with the reason when the check fails. */
export type HealthCheck = () => string | HealthWarning | undefined;

export interface HealthReport {
  readonly healthy: boolean;
  /**
   * One line for each check, in the apiserver's form: `[+]redis ok`, `[-]redis failed: reason`, `[+]redis warning:
   * reason`.
   */
  readonly lines: readonly string[];
}

/** Runs the checks. A check that throws has failed; one with a warning has passed. */
export function report(checks: ReadonlyMap<string, HealthCheck>): HealthReport {
  let healthy = true;
  const lines = [...checks].map(([name, check]) => {
    const result = resultOf(check);
    if (result === undefined) return `[+]${name} ok`;
    if (typeof result === 'object') return `[+]${name} warning: ${result.warning}`;
    healthy = false;
    return `[-]${name} failed: ${result}`;
  });
  return { healthy, lines };
}

function resultOf(check: HealthCheck): ReturnType<HealthCheck> {
  try {
    return check();
  } catch (error) {
    return messageOf(error);
  }
}
