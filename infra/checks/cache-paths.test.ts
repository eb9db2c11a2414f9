import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cachePaths } from './cache-paths.ts';
import { repositoryRoot } from './temp-repository.ts';

const read = (path: string): string => readFileSync(join(repositoryRoot, path), 'utf8');
const codes = (text: string, pattern: RegExp): number[] =>
  [...new Set([...text.matchAll(pattern)].map(([, code]) => Number(code)))].toSorted((a, b) => a - b);

describe('the cache in the contract', () => {
  const document = read('infra/contract/cache.md');
  const operations = Object.values(cachePaths()) as { get: { responses: object; parameters: { name: string }[] } }[];

  it('has each status of the cache API, in both documents', () => {
    const given = [200, ...codes(read('src/gateway/http/cache-api/kubernetes-status.ts'), /code: ([0-9]{3})/g)];
    expect(given.length).toBeGreaterThan(10);
    expect(codes(document, /^\| ([0-9]{3}) /gm)).toEqual(given);
    const published = operations.flatMap(({ get }) => Object.keys(get.responses).map(Number));
    expect([...new Set(published)].toSorted((a, b) => a - b)).toEqual(given);
  });

  it('has each query parameter, in both documents', () => {
    const source = read('src/contract/cache-query.ts') + read('src/gateway/http/cache-api/list-options.ts');
    const used = [...source.matchAll(/query\.get\('(\w+)'\)|'(levelhook-\w+)'/g)].map(
      ([, plain, ours]) => plain ?? ours,
    );
    // Not for a list, or without a meaning here.
    const wanted = [...new Set(used)].filter((name) => !['sendInitialEvents', 'timeoutSeconds'].includes(String(name)));
    expect(wanted.length).toBeGreaterThan(7);
    const published = new Set(operations.flatMap(({ get }) => get.parameters.map(({ name }) => name)));
    expect(wanted.filter((name) => !published.has(String(name)))).toEqual([]);
    expect(wanted.filter((name) => !document.includes(`${name}`))).toEqual([]);
  });
});
