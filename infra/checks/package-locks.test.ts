import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { repositoryRoot } from './temp-repository.ts';

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

it.each(['package-lock.json', 'infra/tools/package-lock.json'])(
  '%s has the integrity of each package from the registry, for other platforms too',
  (file) => {
    const { packages } = JSON.parse(readFileSync(join(repositoryRoot, file), 'utf8')) as {
      packages: Record<string, Locked>;
    };
    const ofRegistry = Object.entries(packages).filter(
      ([path, { link, inBundle }]) => path.includes('node_modules/') && !link && !inBundle,
    );
    expect(ofRegistry.length).toBeGreaterThan(20);
    // npm adds them for packages that the lock lacks: remove these entries, then `npm install --package-lock-only`.
    const lacking = ofRegistry.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
    expect(lacking.map(([path]) => path)).toEqual([]);
    // A registry that lacks a package makes npm leave it out, and `npm ci` refuses the lock.
    const wanted = Object.entries(packages).flatMap(([parent, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).map((name) => ({ name, nested: `${parent}/node_modules/${name}` })),
    );
    const missing = wanted.filter(({ name, nested }) => !packages[`node_modules/${name}`] && !packages[nested]);
    expect(missing.map(({ name }) => name)).toEqual([]);
  },
);
