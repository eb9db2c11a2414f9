import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('assets/dashboard.css', import.meta.url), 'utf8');
const DARK = css.indexOf('prefers-color-scheme: dark');
const END = css.indexOf('*,', DARK);

/** The style sheet writes in these colours on these grounds; the names are those of its properties. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  text: ['page', 'surface', 'raised'],
  muted: ['page', 'surface', 'raised'],
  link: ['page', 'surface', 'raised'],
  ok: ['ok-back'],
  warn: ['warn-back'],
  bad: ['bad-back', 'surface', 'raised'],
  'button-text': ['button'],
};
/** The style sheet draws lines and dots in these colours on these grounds. */
const SHAPES: Readonly<Record<string, readonly string[]>> = {
  focus: ['page', 'surface'],
  muted: ['surface'],
  ok: ['surface'],
  warn: ['surface'],
  bad: ['surface'],
  plot: ['surface'],
  'plot-bad': ['surface'],
};

function palette(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/--([a-z-]+): (#[0-9a-f]{6});/g)].map(([, name = '', value = '']) => [name, value]));
}

/** https://www.w3.org/TR/WCAG21/#dfn-relative-luminance */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const share = parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio */
function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(one), luminance(other)].toSorted((a, b) => b - a) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

describe.each([
  ['light', palette(css.slice(0, DARK))],
  ['dark', palette(css.slice(DARK, END))],
])('the colours of the dashboard: %s', (_, colours) => {
  const pairs = (of: Readonly<Record<string, readonly string[]>>): [string, string][] =>
    Object.entries(of).flatMap(([front, backs]) => backs.map((back): [string, string] => [front, back]));
  const between = (front: string, back: string): number => contrast(colours.get(front) ?? '', colours.get(back) ?? '');

  it.each(pairs(TEXTS))('%s can be read on %s: 4.5 to 1', (front, back) => {
    expect(between(front, back)).toBeGreaterThanOrEqual(4.5);
  });

  it.each(pairs(SHAPES))('%s can be seen on %s: 3 to 1', (front, back) => {
    expect(between(front, back)).toBeGreaterThanOrEqual(3);
  });
});

describe('the style sheet', () => {
  const rules = css.slice(END);
  const used = (property: string): string[] => [
    ...new Set(
      [...rules.matchAll(new RegExp(`[ ;{]${property}: var\\(--([a-z-]+)\\)`, 'g'))].map(([, name = '']) => name),
    ),
  ];

  it('writes no colour as a number beside its two palettes, which have the same names', () => {
    expect(rules).not.toMatch(/: #[0-9a-f]{3,8}/);
    expect([...palette(css.slice(DARK, END)).keys()]).toEqual([...palette(css.slice(0, DARK)).keys()]);
  });

  it('writes in no colour whose contrast is not looked at here', () => {
    expect(used('color').filter((name) => !(name in TEXTS))).toEqual([]);
  });
});
