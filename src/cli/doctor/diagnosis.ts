import { boundedText, messageOf } from '../../core/index.ts';

/** `problem`: something does not work. `warning`: it works, and a person should look at it. */
export type Level = 'ok' | 'warning' | 'problem';

export interface Diagnosis {
  readonly level: Level;
  /** One sentence without its full stop: the finding and, if something is wrong, the remedy. */
  readonly text: string;
}

/** The findings about one part. */
export interface Section {
  readonly name: string;
  readonly findings: readonly Diagnosis[];
}

/** Collects the findings about one part. */
export class Diagnoses {
  readonly all: Diagnosis[] = [];

  ok(text: string): void {
    this.add('ok', text);
  }

  warning(text: string): void {
    this.add('warning', text);
  }

  problem(text: string): void {
    this.add('problem', text);
  }

  /** @param text may contain untrusted names and messages. */
  add(level: Level, text: string): void {
    this.all.push({ level, text: boundedText(text, MAX_TEXT).replace(/[.]$/, '') });
  }
}

const MAX_TEXT = 1024;
/** The time limit of one part, so that a part that does not answer cannot keep the others from being shown. */
const LIMIT_MS = 30_000;

/** Checks one part. Never rejects: an error becomes a problem of that part, after the earlier findings. */
export async function section(name: string, look: (findings: Diagnoses) => Promise<void>): Promise<Section> {
  const findings = new Diagnoses();
  const limit = Promise.withResolvers<never>();
  const timer = setTimeout(() => limit.reject(new Error(`no answer in ${LIMIT_MS / 1000} s`)), LIMIT_MS);
  try {
    await Promise.race([look(findings), limit.promise]);
  } catch (error) {
    findings.problem(messageOf(error));
  } finally {
    clearTimeout(timer);
  }
  // A copy, because findings after the time limit are not shown.
  return { name, findings: [...findings.all] };
}

export function countOf(sections: readonly Section[], level: Level): number {
  return sections.flatMap(({ findings }) => findings).filter((finding) => finding.level === level).length;
}

/** The sections as text for a person. Sections without findings are left out. */
export function describeSections(sections: readonly Section[]): string {
  const parts = sections
    .filter(({ findings }) => findings.length > 0)
    .map(({ name, findings }) => {
      const lines = findings.map(({ level, text }) => `  ${level.padEnd(9)}${text}\n`);
      return `${name}\n${lines.join('')}`;
    });
  const number = (level: Level): string => {
    const count = countOf(sections, level);
    return `${count} ${level}${count === 1 ? '' : 's'}`;
  };
  return `${parts.join('\n')}\n${number('problem')}, ${number('warning')}\n`;
}
