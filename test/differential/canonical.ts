import type { KubernetesObject } from '../../src/core/index.ts';
import { type Compared, type Copy, isMade, type Omission, OMISSIONS } from './omissions.ts';
import { isPlainObject, stable } from './stable.ts';

/**
 * A canonical form of the objects of a plane: two planes must agree on it. It is the JSON of all objects, sorted, after
 * the omissions. Nothing else is left out.
 *
 * @param options.leaving names of pods that are skipped. Default: none
 * @param options.omissions Default: all
 */
export function canonical(
  objects: readonly KubernetesObject[],
  {
    leaving = new Set(),
    omissions = OMISSIONS,
  }: { leaving?: ReadonlySet<string>; omissions?: readonly Omission[] } = {},
): string[] {
  const pods = objects.filter((object) => object.kind === 'Pod' && !isMade(object));
  const at: Compared = { given: new Set(pods.map(({ metadata }) => metadata.name)), leaving };
  const renamed = renames(objects, omissions);
  const shown = objects.flatMap((object) => {
    if (omissions.some(({ skips }) => skips?.(object, at))) return [];
    const text = renamed(stable(edited(object, omissions, at)));
    return [{ text, once: omissions.some(({ once }) => once?.(object)) }];
  });
  const repeated = shown.filter(({ once }) => !once).map(({ text }) => text);
  const single = new Set(shown.filter(({ once }) => once).map(({ text }) => text));
  return [...repeated, ...single].toSorted();
}

function edited(object: KubernetesObject, omissions: readonly Omission[], at: Compared): Copy {
  const fields = omissions.flatMap(({ field }) => field ?? []);
  const valueOf = (name: string, value: unknown): unknown =>
    fields.reduce((left, field) => (left === undefined ? left : field(name, left, object)), value);
  const copyOf = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(copyOf);
    if (!isPlainObject(value)) return value;
    const entries = Object.entries(value).map(([name, each]) => [name, copyOf(valueOf(name, each))] as const);
    return Object.fromEntries(entries.filter(([, each]) => each !== undefined));
  };
  const copy = copyOf(object) as Copy;
  for (const { edit } of omissions) edit?.(copy, at);
  return copy;
}

/** The longest text first: one name may begin with another. */
function renames(objects: readonly KubernetesObject[], omissions: readonly Omission[]): (text: string) => string {
  const all = new Map(omissions.flatMap(({ rename }) => (rename ? objects.flatMap(rename) : [])));
  const found = [...all].toSorted(([a], [b]) => b.length - a.length);
  return (text) => found.reduce((left, [from, to]) => left.replaceAll(from, to), text);
}

/** Paths at which the objects of two planes differ, at most 40; none when they are the same. */
export function differences(theirs: readonly string[], ours: readonly string[]): string[] {
  const missing = bagOf(theirs, ours);
  const added = bagOf(ours, theirs);
  const found = missing.flatMap((text) => {
    const at = added.findIndex((each) => identity(each) === identity(text));
    if (at < 0) return [`missing: ${text.slice(0, 300)}`];
    const [other = ''] = added.splice(at, 1);
    return pathsOf(JSON.parse(text), JSON.parse(other)).map((path) => `${identity(text)} ${path}`);
  });
  return [...found, ...added.map((text) => `added: ${text.slice(0, 300)}`)].slice(0, 40);
}

function bagOf(all: readonly string[], without: readonly string[]): string[] {
  const left = [...without];
  return all.filter((text) => {
    const at = left.indexOf(text);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

function identity(text: string): string {
  const { kind, metadata, name } = JSON.parse(text) as {
    kind?: string;
    name?: string;
    metadata?: { name?: string; generateName?: string };
  };
  return `${kind ?? ''} ${name ?? metadata?.name ?? metadata?.generateName ?? ''}`;
}

function pathsOf(theirs: unknown, ours: unknown, path = ''): string[] {
  if (stable(theirs) === stable(ours)) return [];
  const isNested = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
  if (!isNested(theirs) || !isNested(ours)) return [`${path}: ${stable(theirs)} and ${stable(ours)}`];
  const keys = new Set([...Object.keys(theirs), ...Object.keys(ours)]);
  return [...keys].flatMap((key) => pathsOf(theirs[key], ours[key], `${path}.${key}`));
}
