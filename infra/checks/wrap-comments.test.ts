import { expect, it } from 'vitest';
import { TempRepository } from './temp-repository.ts';
import { wrapComments } from './wrap-comments.ts';

const words = (count: number): string => Array.from({ length: count }, (_, at) => `word${at}`).join(' ');
const widest = (text: string): number => Math.max(...text.split('\n').map(({ length }) => length));

it.each([
  ['lines', `  // ${words(40)}\n  call();`],
  ['a block', `/**\n * ${words(40)}\n */\nexport const a = 1;`],
  ['a block of one line', `  /** ${words(40)} */\n  a: string;`],
])('wraps %s, and keeps every word', (_, text) => {
  const wrapped = wrapComments(text);
  expect(widest(wrapped)).toBeLessThanOrEqual(120);
  expect(wrapped.match(/word\d+/g)).toEqual(text.match(/word\d+/g));
  expect(wrapComments(wrapped)).toBe(wrapped);
});

it('keeps items and tags apart, and indents what follows them', () => {
  const text = `/**\n * ${words(20)}\n * - ${words(20)}\n * @param a ${words(20)}\n */`;
  const lines = wrapComments(text).split('\n');
  expect(lines.filter((line) => line.startsWith(' * - ') || line.startsWith(' * @param '))).toHaveLength(2);
  expect(lines.filter((line) => line.startsWith(' *   '))).toHaveLength(2);
});

it('breaks a line before the tags of a block of one line', () => {
  const lines = wrapComments(`/** ${words(10)}. @param a ${words(10)}. @returns ${words(3)} */`).split('\n');
  expect(lines.map((line) => line.slice(0, 12))).toEqual([
    '/**',
    ' * word0 wor',
    ' * @param a ',
    ' * @returns ',
    ' */',
  ]);
});

it.each([
  ['what fits', '// a\n//  b\n/** c */\n/**\n * d\n * e\n */'],
  ['paragraphs that fit beside one that does not', `// short\n// lines\n`],
  ['fenced code', `/**\n * \`\`\`ts\n * ${words(40)}\n * \`\`\`\n */`],
  ['a table', `/**\n * | ${words(40)} |\n */`],
  ['a directive', `// oxlint-disable-next-line rule -- ${words(40)}`],
  ['a comment behind code', `call(); // ${words(40)}`],
  ['one word', `// ${'x'.repeat(200)}`],
])('leaves %s as it is', (_, text) => {
  expect(wrapComments(text)).toBe(text);
});

it('names the files that it would write, and writes them when it is not asked to check', () => {
  const text = `// ${words(40)}\nexport const a = 1;\n`;
  using repository = new TempRepository({ 'src/a.ts': text, 'src/b.ts': 'export const b = 1;\n' });
  const check = repository.run('infra/checks/wrap-comments.ts', '--check');
  expect(check).toMatchObject({ exitCode: 1, output: expect.stringMatching(/^src\/a.ts\n1 files have/) as string });
  expect(repository.run('infra/checks/wrap-comments.ts')).toMatchObject({ exitCode: 0 });
  expect(repository.run('infra/checks/wrap-comments.ts', '--check')).toEqual({ exitCode: 0, output: '' });
});

it('writes nothing where what looks like a comment is a text', () => {
  const text = 'export const a = `\n// ' + words(40) + '\n`;\n';
  using repository = new TempRepository({ 'src/a.ts': text });
  const { exitCode, output } = repository.run('infra/checks/wrap-comments.ts');
  expect(exitCode).toBe(1);
  expect(output).toBe('src/a.ts: what looks like a comment is code\n');
});
