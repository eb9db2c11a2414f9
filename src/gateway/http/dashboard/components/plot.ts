import { html, type Html } from '../html.ts';

export interface PlotLine {
  /** One for each interval, the oldest first; undefined where nothing is known. */
  readonly values: readonly (number | undefined)[];
  readonly look: 'line' | 'failed';
  /** Fills the area below the line. */
  readonly area?: boolean;
}

/** The size of the drawing in its own units; the style sheet says how large it is shown. */
const WIDTH = 240;
const HEIGHT = 40;

/**
 * Lines over the same intervals as SVG, from 0 to the highest value.
 * @param label describes the drawing for people who cannot see it.
 */
export function plot(className: 'plot' | 'spark', label: string, lines: readonly PlotLine[]): Html {
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== undefined));
  const most = Math.max(0, ...known);
  const paths = lines.flatMap(({ values, look, area = false }) => {
    const parts = partsOf(values);
    return [
      ...(area ? parts.map((part) => html`<path class="area" d="${areaPath(part, values.length, most)}" />`) : []),
      ...parts.map((part) => html`<path class="${look}" d="${linePath(part, values.length, most)}" />`),
    ];
  });
  return html`<svg
    class="${className}"
    viewBox="0 0 ${WIDTH} ${HEIGHT}"
    preserveAspectRatio="none"
    role="img"
    aria-label="${label}"
  >
    ${paths}
  </svg>`;
}

type Part = readonly (readonly [at: number, value: number])[];

/** Stretches without a gap. */
function partsOf(values: readonly (number | undefined)[]): Part[] {
  const parts: [number, number][][] = [];
  let part: [number, number][] | undefined;
  values.forEach((value, at) => {
    if (value === undefined) part = undefined;
    else if (part) part.push([at, value]);
    else parts.push((part = [[at, value]]));
  });
  return parts;
}

function linePath(part: Part, count: number, most: number): string {
  const points = part.map(([at, value]) => `${x(at, count)} ${y(value, most)}`);
  // One value alone shows as a dash.
  const [only] = part;
  if (part.length === 1 && only) points.push(`${x(only[0] + 1, count)} ${y(only[1], most)}`);
  return `M${points.join('L')}`;
}

function areaPath(part: Part, count: number, most: number): string {
  const [first, last] = [part[0]?.[0] ?? 0, part.at(-1)?.[0] ?? 0];
  return `M${x(first, count)} ${HEIGHT}L${part.map(([at, value]) => `${x(at, count)} ${y(value, most)}`).join('L')}L${x(last, count)} ${HEIGHT}Z`;
}

function x(at: number, count: number): string {
  return ((at / Math.max(1, count - 1)) * WIDTH).toFixed(1);
}

function y(value: number, most: number): string {
  return (HEIGHT - 1 - (most === 0 ? 0 : (value / most) * (HEIGHT - 3))).toFixed(1);
}
