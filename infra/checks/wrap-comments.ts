/**
 * Wraps the comments of TypeScript files at 120 columns: `node infra/checks/wrap-comments.ts` writes the files,
 * `--check` only names those that it would write and exits with 1. Prettier does so with code and documents and leaves
 * comments.
 *
 * What a machine has written (the kinds) is left to it.
 *
 * A paragraph with a line that is too long is filled anew; all others stay as they are. List items, tags, tables and
 * fenced code keep their lines apart. A comment behind code is left to its author.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { transformSync } from 'esbuild';

const WIDTH = 120;
const TAG = /^@\w/;
const ITEM = /^([-*]|\d+\.) /;
/** Tables, and what is indented for its own sake. */
const VERBATIM = /^(\||\s{4,})/;

/** One piece of a comment: lines that belong together, without the comment's own characters. */
interface Paragraph {
  readonly lines: string[];
  /** Before each line but the first, when it is filled anew. */
  readonly hang: string;
  readonly isVerbatim: boolean;
}

/** The text with its comments wrapped. */
export function wrapComments(text: string): string {
  const lines = text.split('\n');
  const wrapped: string[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? '';
    const indent = /^ */.exec(line)?.[0] ?? '';
    const rest = line.slice(indent.length);
    if (rest.startsWith('// ') || rest === '//') {
      const end = endOf(lines, at, (each) => each.startsWith(`${indent}//`));
      const group = lines.slice(at, end);
      wrapped.push(...(isProse(group) ? fill(group, `${indent}// `, `${indent}//`.length) : group));
      at = end;
    } else if (rest.startsWith('/**')) {
      const end = 1 + endOf(lines, at, (each) => !each.trimEnd().endsWith('*/'));
      wrapped.push(...wrapBlock(lines.slice(at, end), indent));
      at = end;
    } else {
      wrapped.push(line);
      at += 1;
    }
  }
  return wrapped.join('\n');
}

/** Directives to tools are one line, however long. */
function isProse(group: readonly string[]): boolean {
  return !group.some((line) => /\/\/ (@ts-|oxlint-|eslint-|prettier-)/.test(line));
}

function endOf(lines: readonly string[], from: number, isInside: (line: string) => boolean): number {
  let end = from;
  while (end < lines.length && isInside(lines[end] ?? '')) end += 1;
  return end;
}

function wrapBlock(block: readonly string[], indent: string): readonly string[] {
  if (block.every(({ length }) => length <= WIDTH)) return block;
  const [first = ''] = block;
  if (block.length > 1) {
    const prefix = `${indent} * `;
    return [first, ...fill(block.slice(1, -1), prefix, prefix.length - 1), block.at(-1) ?? ''];
  }
  const text = /^\/\*\* (.*?) ?\*\/$/.exec(first.trim())?.[1];
  // Code stands behind it.
  if (text === undefined) return block;
  const parts = text.split(/ (?=@(?:param|returns|throws|default)\b)/);
  const long = parts.map((part) => `${indent} * ${part}`);
  return [`${indent}/**`, ...fill(long, `${indent} * `, indent.length + 2), `${indent} */`];
}

/** @param bare how much of a line is the comment's own characters. */
function fill(lines: readonly string[], prefix: string, bare: number): string[] {
  return paragraphsOf(lines.map((line) => line.slice(bare).replace(/^ /, ''))).flatMap((paragraph) => {
    const whole = paragraph.lines.map((line) => `${prefix}${line}`.trimEnd());
    if (paragraph.isVerbatim || whole.every(({ length }) => length <= WIDTH)) return whole;
    return filled(paragraph, WIDTH - prefix.length).map((line) => `${prefix}${line}`.trimEnd());
  });
}

function paragraphsOf(lines: readonly string[]): Paragraph[] {
  const paragraphs: Paragraph[] = [];
  let isFenced = false;
  for (const line of lines) {
    const isFence = line.trimStart().startsWith('```');
    const open = paragraphs.at(-1);
    const inner = line.trimStart();
    const margin = line.slice(0, line.length - inner.length);
    if (isFenced || isFence || inner === '' || VERBATIM.test(line)) {
      paragraphs.push({ lines: [line], hang: '', isVerbatim: true });
    } else if (TAG.test(inner) || ITEM.test(inner)) {
      paragraphs.push({ lines: [line], hang: `${margin}${hangOf(inner)}`, isVerbatim: false });
    } else if (open && !open.isVerbatim) {
      open.lines.push(line);
    } else {
      paragraphs.push({ lines: [line], hang: margin, isVerbatim: false });
    }
    if (isFence) isFenced = !isFenced;
  }
  return paragraphs;
}

function hangOf(line: string): string {
  return ' '.repeat(ITEM.exec(line)?.[0].length ?? 2);
}

function filled({ lines: [first = '', ...others], hang }: Paragraph, width: number): string[] {
  const words = [first.trimEnd(), ...others.map((line) => line.trim())].join(' ').split(/(?<=\S) +/);
  const lines: string[] = [];
  let line = '';
  for (const word of words) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (longer.length <= width || line === '' || line === hang) line = longer;
    else {
      lines.push(line);
      line = `${hang}${word}`;
    }
  }
  return [...lines, line];
}

/** What is left of a file without its comments: the wrapping must not touch it. */
function codeOf(text: string): string {
  return transformSync(text, { loader: 'ts', legalComments: 'none', minifyWhitespace: true }).code;
}

function main(isCheck: boolean): void {
  let count = 0;
  for (const path of globSync('{src,functions,test,infra}/**/*.ts', {
    exclude: ['src/function/kinds/**'],
  }).toSorted()) {
    const text = readFileSync(path, 'utf8');
    const wrapped = wrapComments(text);
    if (wrapped === text) continue;
    if (codeOf(wrapped) !== codeOf(text)) {
      process.stdout.write(`${path}: what looks like a comment is code\n`);
      process.exitCode = 1;
      continue;
    }
    count += 1;
    process.stdout.write(`${path}\n`);
    if (!isCheck) writeFileSync(path, wrapped);
  }
  if (isCheck && count > 0) {
    process.stdout.write(`${count} files have comments over ${WIDTH} columns: npm run format wraps them\n`);
    process.exitCode = 1;
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  main(process.argv.includes('--check'));
}
