import { figure } from './table.ts';

export interface Bar {
  readonly label: string;
  /** The bar's length. One below zero is drawn as none, with its figure. */
  readonly value: number;
  readonly least: number;
  readonly most: number;
}

export interface Panel {
  /** With the unit. */
  readonly title: string;
  readonly bars: readonly Bar[];
}

const COLUMNS = 2;
const WIDTH = 900;
const GAP = 40;
/** Of a label's letter, about. */
const LETTER = 7.3;
const FIGURES = 60;
const BAR = 16;
const LINE = 24;
const HEAD = 56;
const TITLE = 30;

/**
 * An SVG with a panel for each measure, in which each bar is a median and the line on it goes from the least to the
 * most of the rounds. Each panel has its own scale. Readable on light and on dark ground.
 * @param subject the label whose bars stand out
 */
export function plot(title: string, panels: readonly Panel[], subject: string): string {
  const width = (WIDTH - GAP * (COLUMNS - 1)) / COLUMNS;
  const height = TITLE + LINE * Math.max(0, ...panels.map(({ bars }) => bars.length)) + GAP / 2;
  const drawn = panels.map((panel, at) => {
    const [x, y] = [(at % COLUMNS) * (width + GAP), HEAD + Math.floor(at / COLUMNS) * height];
    return `<g transform="translate(${x} ${y})">\n${drawPanel(panel, width, subject)}\n</g>`;
  });
  const whole = HEAD + Math.ceil(panels.length / COLUMNS) * height;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-20 0 ${WIDTH + 40} ${whole}" role="img" aria-label="${escape(title)}">`,
    '<style>',
    'text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600; font-size: 14px }',
    '.ground { fill: #ffffff } .bar { fill: #8c959f } .subject { fill: #0969da } .range { stroke: #1f2328; stroke-width: 2 }',
    '@media (prefers-color-scheme: dark) {',
    'text { fill: #e6edf3 } .ground { fill: #0d1117 } .bar { fill: #6e7681 } .subject { fill: #4493f8 }',
    '.range { stroke: #e6edf3 }',
    '}',
    '</style>',
    `<rect class="ground" x="-20" width="${WIDTH + 40}" height="${whole}"/>`,
    `<text class="title" y="28">${escape(title)}</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}

function drawPanel({ title, bars }: Panel, width: number, subject: string): string {
  const labels = 10 + Math.max(...bars.map(({ label }) => label.length)) * LETTER;
  const scale = (width - labels - FIGURES) / Math.max(...bars.map(({ most }) => most), Number.MIN_VALUE);
  const at = (value: number): string => (labels + Math.max(0, value) * scale).toFixed(1);
  const rows = bars.map(({ label, value, least, most }, index) => {
    const top = TITLE - LINE / 2 + index * LINE;
    const middle = top + BAR / 2;
    return [
      `<text x="${(labels - 8).toFixed(1)}" y="${middle + 4}" text-anchor="end">${escape(label)}</text>`,
      `<rect class="${label === subject ? 'subject' : 'bar'}" x="${labels.toFixed(1)}" y="${top}" width="${(Math.max(0, value) * scale).toFixed(1)}" height="${BAR}"/>`,
      `<line class="range" x1="${at(least)}" x2="${at(most)}" y1="${middle}" y2="${middle}"/>`,
      `<text x="${Number(at(most)) + 6}" y="${middle + 4}">${figure(value)}</text>`,
    ].join('\n');
  });
  return [`<text class="title" y="6">${escape(title)}</text>`, ...rows].join('\n');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
