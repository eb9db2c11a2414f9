import type { OutputLine } from '../testing/process/owned-process.ts';

/**
 * The URLs of a function's controllers, when the line says that it listens: the function's own, or one for each path.
 */
export function listeningUrls(line: OutputLine): string[] | undefined {
  if (!('json' in line) || line.json['msg'] !== 'listening') return undefined;
  const { url, paths } = line.json;
  return Array.isArray(paths) ? paths.map((path) => `${String(url)}${String(path)}`) : [String(url)];
}
