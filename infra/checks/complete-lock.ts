/**
 * Adds to package-lock.json the optional platform packages that a partial npm registry did not serve when the lock was
 * written: `npm ci` refuses a lock that lacks them. Each gets the version that its parent pins. Run it after an
 * `npm install` that dropped some: `npm run complete-lock`.
 */
import { readFileSync, writeFileSync } from 'node:fs';

interface LockedPackage {
  version?: string;
  dev?: boolean;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
  optionalDependencies?: Record<string, string>;
}

const SYSTEMS = new Set('aix android darwin freebsd linux netbsd openbsd openharmony sunos win32'.split(' '));
const PROCESSORS = new Set('arm arm64 ia32 loong64 mips64el ppc64 riscv64 s390x wasm32 x64'.split(' '));

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, LockedPackage> };
const added: string[] = [];
for (const [path, parent] of Object.entries(lock.packages)) {
  // The root's own are ranges, and they are there.
  if (path === '') continue;
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const place = `node_modules/${name}`;
    if (lock.packages[place] || lock.packages[`${path}/${place}`] || !/^[0-9]/.test(version)) continue;
    lock.packages[place] = { version, ...platform(name), ...(parent.dev ? { dev: true } : {}), optional: true };
    added.push(`${name}@${version}`);
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).toSorted(([a], [b]) => a.localeCompare(b, 'en')));
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`);
process.stdout.write(added.length > 0 ? `added ${added.join(', ')}\n` : 'nothing was missing\n');

/** What a platform package's name says about where it runs: `@swc/core-linux-x64-musl`. */
function platform(name: string): Pick<LockedPackage, 'os' | 'cpu' | 'libc'> {
  const words = name.replace('ppc64le', 'ppc64').split(/[-/]/);
  const os = words.filter((word) => SYSTEMS.has(word));
  const cpu = words.filter((word) => PROCESSORS.has(word));
  const libc =
    os[0] === 'linux'
      ? words.flatMap((word) => (word.startsWith('musl') ? 'musl' : word.startsWith('gnu') ? 'glibc' : []))
      : [];
  return { ...(cpu.length > 0 ? { cpu } : {}), ...(libc.length > 0 ? { libc } : {}), ...(os.length > 0 ? { os } : {}) };
}
