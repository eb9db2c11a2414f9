import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { levelhook } from '../../test/harness/command-line.ts';

/** Each command, called wrongly in two ways. */
const MISTAKES: readonly string[] = [
  'start --port x',
  'start --functions replicaset,,deployment',
  'init --knd v1/ConfigMap',
  'init . other',
  'add webhok names',
  'add controller report',
  'dev --port 99999',
  'dev --contxt mine',
  'gateway --port x',
  'gateway now',
  'doctor --output table',
  'doctor now',
  'types --from two,words',
  'types nowhere.yaml',
  'crds --chek',
  'crds --out',
  'complete tcsh',
  'complete zsh bash',
  'manifest',
  'manifest http://127.0.0.1:8080',
  'token',
  'token --kinds v1/Pod --minutes 0',
  'profile --kind all',
  'profile --seconds 0',
  'get controlers',
  'get controllers --output text',
  'get controllers web',
  'get keys',
  'get keys web --list nothing',
  'get dead-letters --limit many',
  'get dead-letters a b',
  'get views --gateway nowhere',
  'get views all',
  'get functions --gateway http://127.0.0.1:8787/levelhook',
  'get functions --wach',
  'explain web',
  'explain web a/b/c',
  'trigger',
  'trigger web',
  'replay web --al',
  'replay web a/x --all',
  'drop web --namespace',
  'drop web --namespace a/b',
  'pause',
  'pause web a/x --namespace a',
  'rights',
  'rights web --namespace a/b',
  'resume web --all',
  'resume web a/b/c',
];
const TABLE = new URL('mistakes.md', import.meta.url);
/** Lines of a terminal that shows the help of a command at once. */
const SCREEN = 40;

function commandsIn(help: string): string[] {
  const [, list = ''] = /\nCommands:\n([\s\S]*)$/.exec(help) ?? [];
  return [...list.matchAll(/^ {2}([a-z][a-z-]*)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : [name]));
}

it('each mistake gets one sentence that says what is wrong and what to do, and a table has them', async () => {
  const rows: string[] = [];
  for (const call of MISTAKES) {
    const { stdout, stderr, code } = await levelhook(...call.split(' '));
    expect([stdout, code === 1 || code === 2], call).toEqual(['', true]);
    expect(stderr, call).toMatch(/^levelhook: [^\n]*\.\n$/);
    rows.push(`| \`levelhook ${call}\` | ${stderr.slice('levelhook: '.length).trim().replaceAll('|', '\\|')} |`);
  }
  const head = ['# Mistakes', '', 'What the commands answer when they are called wrongly.', ''];
  const text = `${[...head, '| command | answer |', '| --- | --- |', ...rows].join('\n')}\n`;
  if (process.env['UPDATE_MISTAKES']) writeFileSync(TABLE, text);
  expect(rowsOf(readFileSync(TABLE, 'utf8'))).toEqual(rowsOf(text));
});

/** Without the spaces that align the columns. */
const rowsOf = (text: string): string[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.replaceAll(/ +/g, ' '));

it('each command is called wrongly in two ways, and its help fits one screen', async () => {
  const names: string[] = [];
  const visit = async (path: readonly string[]): Promise<void> => {
    const { stdout } = await levelhook(...path, '--help');
    expect(stdout.split('\n').length, path.join(' ')).toBeLessThanOrEqual(SCREEN);
    const below = commandsIn(stdout);
    if (below.length === 0) names.push(path.join(' '));
    for (const name of below) await visit([...path, name]);
  };
  await visit([]);
  expect(names.length).toBeGreaterThan(18);
  for (const name of names) {
    const calls = MISTAKES.filter((call) => call === name || call.startsWith(`${name} `));
    expect(calls.length, name).toBeGreaterThanOrEqual(2);
  }
});
