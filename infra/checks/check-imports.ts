/**
 * Runs the import rules over src and functions of the current directory; exits with 1 and one line per violation.
 * A wrapper because the command line of dependency-cruiser is content with having read nothing.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { z } from 'zod';
import rules from './import-rules.cjs';

const tsconfigSchema = z.object({
  compilerOptions: z.object({ paths: z.record(z.string(), z.array(z.string())).optional() }),
});

const roots = ['src', 'functions'].filter((root) => existsSync(root));
const { output } = await cruise(
  roots,
  { ...rules.options, ruleSet: { forbidden: rules.forbidden ?? [] }, validate: true },
  { alias: aliases() },
);
if (typeof output === 'string') throw new TypeError('dependency-cruiser returned a report instead of a result');

const problems = [...violations(output), ...unread(output)];
const { totalCruised, totalDependenciesCruised } = output.summary;
const lines =
  problems.length > 0 ? problems : [`import rules: ${totalCruised} modules, ${totalDependenciesCruised} imports`];
process.stdout.write(`${lines.join('\n')}\n`);
process.exitCode = problems.length > 0 ? 1 : 0;

/** The `paths` of tsconfig.json: the names of the second package, which mean its sources. */
function aliases(): Record<string, string[]> {
  const { compilerOptions } = tsconfigSchema.parse(JSON.parse(readFileSync('tsconfig.json', 'utf8')));
  return Object.fromEntries(
    Object.entries(compilerOptions.paths ?? {}).map(([name, targets]) => [
      name.endsWith('*') ? name : `${name}$`,
      targets.map((target) => resolve(target)),
    ]),
  );
}

function violations(result: ICruiseResult): string[] {
  return result.summary.violations.map(({ rule, from, to, cycle }) => {
    const path = cycle === undefined ? to : cycle.map(({ name }) => name).join(' -> ');
    return `${rule.name}: ${from} -> ${path}`;
  });
}

/** Every TypeScript file on disk must have been parsed, and together they import something. */
function unread(result: ICruiseResult): string[] {
  const files = globSync('{src,functions}/**/*.{ts,mts,cts,tsx}');
  const read = new Set(result.modules.map(({ source }) => source));
  if (files.length === 0) return ['no-modules: no TypeScript file in src or functions'];
  if (result.summary.totalDependenciesCruised === 0) return ['no-modules: not a single import was seen'];
  return files.filter((file) => !read.has(file)).map((file) => `unread-module: ${file}`);
}
