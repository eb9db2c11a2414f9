import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, extname, join, posix, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
export const REPOSITORY = 'https://github.com/levelhook/levelhook';

/** A document of the repository, and its place in the site; both are paths with `.md`. */
export interface Page {
  readonly source: string;
  readonly path: string;
}

export interface Section {
  readonly title: string;
  readonly pages: readonly Page[];
}

const page = (source: string, path: string): Page => ({ source, path });
const inFolder = (from: string, to: string, names: readonly string[]): Page[] =>
  names.map((name) => page(`${from}/${name}.md`, `${to}/${name === 'README' ? 'index' : name}.md`));
const found = (pattern: string): string[] =>
  globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules/**'] }).toSorted();

const GUIDE = [
  'README',
  'ten-minutes',
  'children',
  'finalizers',
  'status',
  'indexes',
  'errors',
  'long-runs',
  'webhooks',
  'testing',
  'production',
  'upgrades',
];

/** `functions/examples/20-platforms/deno/README.md` is at `examples/20-platforms/deno.md`. */
function examplePage(source: string): Page {
  const folder = posix.dirname(posix.relative('functions/examples', source));
  return page(source, `examples/${folder}.md`);
}

/** The pages of the site, in the order of its side bar. The first page is the README of the repository. */
export const SECTIONS: readonly Section[] = [
  { title: 'Guide', pages: inFolder('infra/docs/guide', 'guide', GUIDE) },
  {
    title: 'Concepts',
    pages: [
      page('infra/docs/concepts.md', 'concepts.md'),
      page('infra/docs/glossary.md', 'glossary.md'),
      page('infra/docs/security.md', 'security.md'),
    ],
  },
  {
    title: 'How to',
    pages: [
      page('infra/docs/in-a-cluster.md', 'in-a-cluster.md'),
      page('infra/helm/README.md', 'charts.md'),
      page('infra/docs/dashboard.md', 'dashboard.md'),
      page('infra/observability/README.md', 'observability.md'),
      page('infra/docs/troubleshooting.md', 'troubleshooting.md'),
    ],
  },
  {
    title: 'Coming from',
    pages: inFolder('infra/docs/coming-from', 'coming-from', [
      'controller-runtime',
      'metacontroller',
      'kopf',
      'built-in-controllers',
    ]),
  },
  { title: 'Alerts', pages: inFolder('infra/docs/alerts', 'alerts', readmeFirst('infra/docs/alerts')) },
  { title: 'Examples', pages: found('functions/examples/**/README.md').map(examplePage) },
  {
    title: 'Reference',
    pages: [
      page('src/function/README.md', 'reference/sdk.md'),
      page('src/testing/README.md', 'reference/testing.md'),
      page('src/cli/README.md', 'reference/command-line.md'),
      page('src/create/README.md', 'reference/project.md'),
      page('infra/docs/settings.md', 'reference/settings.md'),
      ...inFolder('infra/contract', 'reference/contract', ['README', 'cache', 'credentials', 'versions']),
      page('test/bench/RESULTS.md', 'reference/results.md'),
      page('CHANGELOG.md', 'reference/changelog.md'),
    ],
  },
  { title: 'Decisions', pages: inFolder('infra/adr', 'decisions', readmeFirst('infra/adr')) },
];

function readmeFirst(folder: string): string[] {
  const names = found(`${folder}/*.md`).map((path) => basename(path, '.md'));
  return ['README', ...names.filter((name) => name !== 'README')];
}

export const PAGES: readonly Page[] = [page('README.md', 'index.md'), ...SECTIONS.flatMap(({ pages }) => pages)];
const SITE = new Map(PAGES.map(({ source, path }) => [source, path]));

/** The text outside of blocks of code, and the blocks, in turn. */
const FENCE = /(^[ \t]*(```|~~~)[^\n]*\n[\s\S]*?^[ \t]*\2[ \t]*$)/m;
/** A link or an image with its target. Text may be wrapped, and may itself be an image. */
const LINK = /(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\(([^)\s]+)\)/g;

export interface Link {
  readonly isImage: boolean;
  readonly text: string;
  readonly target: string;
}

/** Replaces what stands outside of blocks of code. */
function outsideCode(text: string, change: (part: string) => string): string {
  const parts = text.split(FENCE);
  // The split gives text, block, fence, text, and so on.
  return parts.map((part, at) => (at % 3 === 0 ? change(part) : at % 3 === 1 ? part : '')).join('');
}

export function linksOf(text: string): Link[] {
  const links: Link[] = [];
  outsideCode(text, (part) => {
    for (const [, image = '', inner = '', target = ''] of part.matchAll(LINK)) {
      links.push({ isImage: image === '!', text: inner, target });
    }
    return part;
  });
  return links;
}

export const titleOf = (text: string): string => /^# (.*)$/m.exec(text)?.[1]?.replaceAll('`', '') ?? '';

/** The first paragraph in one line, without links. */
export function summaryOf(text: string): string {
  const [paragraph = ''] = text
    .replace(/^# .*$/m, '')
    .trim()
    .split('\n\n');
  return paragraph.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/\s+/g, ' ');
}

/** As GitHub names the heading, so that a link works there and here. */
export function slugOf(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

/** What `#...` may name in a document. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  outsideCode(text, (part) => {
    for (const [, heading = ''] of part.matchAll(/^#{1,6} (.*)$/gm)) {
      const slug = slugOf(heading);
      for (let at = 0; ; at += 1) {
        const each = at === 0 ? slug : `${slug}-${at}`;
        if (anchors.has(each)) continue;
        anchors.add(each);
        break;
      }
    }
    return part;
  });
  return anchors;
}

const isElsewhere = (target: string): boolean => /^[a-z][a-z+.-]*:/i.test(target);

interface Target {
  /** The file or folder from the root of the repository. */
  readonly file: string;
  readonly anchor: string;
}

/** @returns undefined for a link to another site. */
export function targetOf(source: string, target: string): Target | undefined {
  if (isElsewhere(target)) return undefined;
  const [path = '', anchor = ''] = target.split('#');
  const file = path === '' ? source : posix.normalize(posix.join(posix.dirname(source), decodeURI(path)));
  const readme = posix.join(file, 'README.md');
  return { file: existsSync(join(ROOT, readme)) ? readme : file.replace(/\/$/, ''), anchor };
}

/** A page as the site has it, and the images that it shows: where they are in the repository and in the site. */
export function sitePage({ source, path }: Page): { text: string; images: readonly (readonly [string, string])[] } {
  const images: (readonly [string, string])[] = [];
  const from = posix.dirname(path);
  const relative = (to: string): string => {
    const found = posix.relative(from, to);
    return found.startsWith('.') ? found : `./${found}`;
  };
  const text = outsideCode(readFileSync(join(ROOT, source), 'utf8'), (part) =>
    part.replaceAll(LINK, (whole, image: string, inner: string, target: string) => {
      const to = targetOf(source, target);
      if (!to || target.startsWith('#')) return whole;
      const anchor = to.anchor === '' ? '' : `#${to.anchor}`;
      const place = SITE.get(to.file);
      if (place !== undefined) return `${image}[${inner}](${relative(place)}${anchor})`;
      if (image === '!') {
        const name = `images/${to.file.replaceAll('/', '-')}`;
        images.push([to.file, name]);
        return `![${inner}](${relative(name)})`;
      }
      const kind = extname(to.file) === '' ? 'tree' : 'blob';
      return `[${inner}](${REPOSITORY}/${kind}/main/${to.file}${anchor})`;
    }),
  );
  return { text, images };
}
