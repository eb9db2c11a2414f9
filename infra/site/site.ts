import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { npmTools } from '../../test/harness/npm-tools.ts';
import { commandsPage } from './commands.ts';
import { PAGES, REPOSITORY, ROOT, SECTIONS, sitePage, slugOf, summaryOf, titleOf } from './pages.ts';
import { sdkReference } from './sdk-reference.ts';

export interface SiteOptions {
  /** The folder of the site. The build replaces its content. */
  readonly out: string;
  /** The path under which the site is served. Default `/`. */
  readonly base?: string;
}

const run = promisify(execFile);
const LIMITS = { maxBuffer: 64 * 1024 * 1024 };
const COMMANDS = 'reference/commands.md';

/** Builds the site from the documents of the repository, the doc comments of the SDK and the help of the commands. */
export async function buildSite({ out, base = '/' }: SiteOptions): Promise<void> {
  const tools = await npmTools();
  // In the folder of the tools: the pages import the packages of the generator.
  const folder = await mkdtemp(join(dirname(tools), 'site-'));
  try {
    const texts = new Map<string, string>();
    for (const page of PAGES) {
      const { text, images } = sitePage(page);
      texts.set(page.path, text);
      for (const [from, to] of images) await copy(join(ROOT, from), join(folder, to));
    }
    texts.set(COMMANDS, await commandsPage());
    for (const [path, text] of texts) await write(join(folder, path), text);
    const sdk = await sdkReference(tools, join(folder, 'reference/api'));
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    await write(join(folder, '.vitepress/config.mjs'), config(texts, sdk, { base, version }));
    await write(join(folder, '.vitepress/theme/index.mjs'), THEME);
    await write(join(folder, '.vitepress/theme/readable.css'), CSS);
    await write(join(folder, 'public/llms.txt'), llms(texts, base));
    await rm(out, { recursive: true, force: true });
    const vitepress = join(tools, 'vitepress/bin/vitepress.js');
    await run(process.execPath, [vitepress, 'build', folder, '--outDir', out], { ...LIMITS, cwd: folder });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** For programs that read documents: the pages with what each is about (llmstxt.org). */
export function llms(texts: ReadonlyMap<string, string>, base: string): string {
  const line = (path: string): string => {
    const text = texts.get(path) ?? '';
    return `- [${titleOf(text)}](${base}${path.replace(/\.md$/, '.html')}): ${summaryOf(text)}`;
  };
  const [start = ''] = [texts.get('index.md')];
  const sections = SECTIONS.map(({ title, pages }) => [`## ${title}`, '', ...pages.map(({ path }) => line(path)), '']);
  return [`# ${titleOf(start)}`, '', `> ${summaryOf(start)}`, '', ...sections.flat()].join('\n');
}

/** The generator's settings as a module: all data but the function that names headings. */
function config(
  texts: ReadonlyMap<string, string>,
  sdk: readonly string[],
  { base, version }: { base: string; version: string },
): string {
  const item = (path: string): object => ({
    text: titleOf(texts.get(path) ?? '') || path,
    link: `/${path.replace(/(index)?\.md$/, '')}`,
  });
  const group = (title: string, more: readonly object[] = []): object => {
    const pages = SECTIONS.filter((each) => each.title === title).flatMap((each) => each.pages);
    return { text: title, items: [...pages.map(({ path }) => item(path)), ...more] };
  };
  const api = sdk.map((path) => ({
    text: apiTitle(path),
    link: `/reference/api/${path.replace(/(index)?\.md$/, '')}`,
  }));
  // A side bar for each part, and the first page of each other part in that of the guide.
  const parts = [
    { text: 'Examples', link: '/examples/01-minimal' },
    { text: 'Reference', link: '/reference/sdk' },
    { text: 'Alerts', link: '/alerts/' },
    { text: 'Decisions', link: '/decisions/' },
  ];
  const sidebar = {
    '/examples/': [group('Examples')],
    '/reference/': [group('Reference', [item(COMMANDS)]), { text: 'API', items: api }],
    '/alerts/': [group('Alerts')],
    '/decisions/': [group('Decisions')],
    '/': [group('Guide'), group('Concepts'), group('How to'), group('Coming from'), { text: 'More', items: parts }],
  };
  const settings = {
    title: 'levelhook',
    description: summaryOf(texts.get('index.md') ?? ''),
    base,
    lang: 'en',
    cleanUrls: false,
    themeConfig: {
      search: { provider: 'local' },
      outline: [2, 3],
      sidebar,
      nav: [
        { text: 'Guide', link: '/guide/' },
        { text: 'Examples', link: '/examples/01-minimal' },
        { text: 'Reference', link: '/reference/sdk' },
        { text: `Version ${version}`, link: '/reference/changelog' },
      ],
      socialLinks: [{ icon: 'github', link: REPOSITORY }],
      footer: { message: 'Apache-2.0' },
    },
  };
  // The guide before the doc comments, which name everything.
  const boost = "(id) => (id.includes('/reference/api/') ? 0.3 : id.includes('/guide/') ? 3 : 1)";
  return `const slugify = ${slugOf.toString()};
const settings = ${JSON.stringify(settings)};
settings.themeConfig.search.options = { miniSearch: { searchOptions: { boostDocument: ${boost} } } };
export default { ...settings, markdown: { anchor: { slugify }, theme: ${JSON.stringify(COLOURS)} } };
`;
}

/** Others have too little contrast for some words. */
const COLOURS = { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' };
const THEME = `import theme from 'vitepress/theme';
import './readable.css';

export default theme;
`;
/** The name of a language has too little contrast, and the keys of the search button are not in its name. */
const CSS = `.vp-doc div[class*='language-'] > span.lang { color: var(--vp-c-text-1); }
.DocSearch-Button-Keys { display: none !important; }
`;

const apiTitle = (path: string): string => path.replace(/(\/index|\/README)?\.md$/, '');

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await cp(from, to);
}
