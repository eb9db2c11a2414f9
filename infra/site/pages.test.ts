import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { anchorsOf, linksOf, PAGES, ROOT, sitePage, slugOf, targetOf } from './pages.ts';

const documents = globSync('**/*.md', {
  cwd: ROOT,
  exclude: ['**/node_modules/**', '**/dist/**', '.git/**', '.changeset/**'],
}).toSorted();

it('every page has a document, and no two pages have one place', () => {
  expect(PAGES.filter(({ source }) => !existsSync(join(ROOT, source)))).toEqual([]);
  expect(new Set(PAGES.map(({ path }) => path)).size).toBe(PAGES.length);
});

it('every document for users is a page', () => {
  const sources = new Set(PAGES.map(({ source }) => source));
  const forUsers = documents.filter((path) => /^(infra\/(docs|adr|contract)|functions\/examples)\//.test(path));
  expect(forUsers.length).toBeGreaterThan(50);
  expect(forUsers.filter((path) => !sources.has(path))).toEqual([]);
});

it('every link in a document of the repository leads to a file, and to a heading of it', () => {
  const broken = documents.flatMap((source) =>
    linksOf(readFileSync(join(ROOT, source), 'utf8')).flatMap(({ target }) => {
      const to = targetOf(source, target);
      if (!to) return [];
      if (!existsSync(join(ROOT, to.file))) return [`${source}: ${target}`];
      if (to.anchor === '' || !to.file.endsWith('.md')) return [];
      return anchorsOf(readFileSync(join(ROOT, to.file), 'utf8')).has(to.anchor) ? [] : [`${source}: ${target}`];
    }),
  );
  expect(broken).toEqual([]);
});

it('a page links to pages, shows images of the repository, and names other files on GitHub', () => {
  const start = sitePage({ source: 'README.md', path: 'index.md' });
  expect(start.text).toContain('](./guide/index.md)');
  expect(start.text).toContain('](./examples/02-custom-resource.md)');
  expect(start.text).toContain('](https://github.com/levelhook/levelhook/blob/main/.github/SECURITY.md)');
  expect(start.images).toContainEqual(['infra/docs/dashboard-key.png', 'images/infra-docs-dashboard-key.png']);
  const chapter = sitePage({ source: 'infra/docs/guide/README.md', path: 'guide/index.md' });
  expect(chapter.text).toContain('](../concepts.md)');
});

it('links in code stay as they are, and wrapped links and images in links are found', () => {
  const text = ['[a\nb](c.md)', '```', '[x](y.md)', '```', '[![i](j.png)](k.md#l)'].join('\n');
  expect(linksOf(text)).toEqual([
    { isImage: false, text: 'a\nb', target: 'c.md' },
    { isImage: false, text: '![i](j.png)', target: 'k.md#l' },
  ]);
});

it('headings have the names that GitHub gives them', () => {
  expect(slugOf("What it's for, and `levelhook dev`")).toBe('what-its-for-and-levelhook-dev');
  expect([...anchorsOf('# A\n## A\n```\n# B\n```\n')]).toEqual(['a', 'a-1']);
});
