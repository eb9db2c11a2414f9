import { type FSWatcher, globSync, watch } from 'node:fs';
import { basename, join } from 'node:path';

/** Folders of installed and built files: the watch leaves them out. */
const LEFT_OUT = new Set(['node_modules', 'dist', 'build', 'target', '__pycache__']);
/** Editors write a file in several steps, and some write several files. */
const SETTLE_MS = 100;

/**
 * Calls when files of a folder have changed, once for changes that follow each other at once, until the signal is
 * aborted. Files and folders whose name begins with a dot are left out, and so is what is installed or built. It
 * watches each folder by itself, because a recursive watch would also watch all that is installed.
 */
export function watchFolder(folder: string, onChanged: () => void, signal: AbortSignal): void {
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | undefined;
  const settle = (name: string | null): void => {
    if (signal.aborted || (name !== null && isLeftOut(name))) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      look();
      onChanged();
    }, SETTLE_MS);
  };
  const look = (): void => {
    const found = new Set([folder, ...foldersOf(folder)]);
    for (const [path, watcher] of watchers) {
      if (found.has(path)) continue;
      watcher.close();
      watchers.delete(path);
    }
    for (const path of found) {
      if (watchers.has(path)) continue;
      const watcher = watch(path, (_, name) => settle(name));
      // The folder was removed: the watch of the one above it has told of that.
      watcher.on('error', () => watcher.close());
      watchers.set(path, watcher);
    }
  };
  look();
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    for (const watcher of watchers.values()) watcher.close();
  });
}

function foldersOf(folder: string): string[] {
  const found = globSync('**/', { cwd: folder, exclude: (path) => isLeftOut(basename(path)) });
  return found.map((path) => join(folder, path));
}

function isLeftOut(name: string): boolean {
  return LEFT_OUT.has(name) || name.startsWith('.') || name.endsWith('~');
}
