import type { MachineLoad } from './machine-load.ts';
import { median } from './median.ts';
import { type Panel, plot } from './plot.ts';
import { figure, markdownTable, ratio } from './table.ts';

/** Figures of one round by name. `NAME.stolen` and `NAME.foreign` are those of `MachineLoad`. */
export type Figures = Readonly<Record<string, number>>;

/** A line of the table: one figure, several figures, or their sum. */
export interface Row {
  readonly label: string;
  readonly figures: readonly string[];
  /** Whether the cell has the sum of the figures. Default: it has each figure. */
  readonly sum?: boolean;
  /** Whether RESULTS.md shows it too. Default: false. */
  readonly main?: boolean;
  /** Title of its panel in the plot. Default: it has none. */
  readonly panel?: string;
}

/** In percent of the processors. */
const MOST_FOREIGN = 5;

/** Collects the figures of arms over rounds, and shows their medians and the ratios of one arm to others. */
export class Comparison {
  readonly #rounds: ReadonlyMap<string, Figures[]>;
  readonly #rows: readonly Row[];
  readonly #subject: string;
  readonly #to: readonly string[];

  /** @param subject the arm that is compared with those of `to` */
  constructor(
    arms: readonly string[],
    rows: readonly Row[],
    { subject, to }: { subject: string; to: readonly string[] },
  ) {
    this.#rounds = new Map(arms.map((arm) => [arm, []]));
    this.#rows = rows;
    this.#subject = subject;
    this.#to = arms.includes(subject) ? to.filter((arm) => arms.includes(arm)) : [];
  }

  add(arm: string, figures: Figures): void {
    this.#rounds.get(arm)?.push(figures);
  }

  /** All rows for which an arm has figures, or the main ones. */
  table(which: 'all' | 'main' = 'all'): string {
    const rows = this.#rows.filter(({ main }) => which === 'all' || main).flatMap((row) => this.#cells(row) ?? []);
    return markdownTable(['', ...this.#rounds.keys(), ...this.#to.map((name) => `to ${name}`)], rows);
  }

  plot(title: string): string {
    const panels = this.#rows.flatMap((row): Panel[] => {
      const bars = [...this.#rounds].flatMap(([label, rounds]) => {
        const values = rounds.map((round) => valueOf(row, round)).filter(Number.isFinite);
        if (values.length === 0) return [];
        return { label, value: median(values), least: Math.min(...values), most: Math.max(...values) };
      });
      return row.panel !== undefined && bars.length > 0 ? [{ title: row.panel, bars }] : [];
    });
    return plot(title, panels, this.#subject);
  }

  /** `steal 0 % (at most 1 %), foreign CPU 12 % (at most 30 %)`: over all arms, rounds and parts. */
  machine(): string {
    const of = (name: keyof MachineLoad): string => {
      const values = this.#loads(name);
      return values.length > 0
        ? `${median(values).toFixed(0)} % (at most ${Math.max(...values).toFixed(0)} %)`
        : 'none';
    };
    return `steal ${of('stolen')}, foreign CPU ${of('foreign')}`;
  }

  /** Why these figures must not be kept: other programs took more than 5 % of the processors. Undefined: they may. */
  refusal(): string | undefined {
    const values = this.#loads('foreign');
    const foreign = values.length > 0 ? median(values) : 0;
    if (foreign <= MOST_FOREIGN) return undefined;
    return `other programs used ${foreign.toFixed(0)} % of the processors, at most ${MOST_FOREIGN} % may be saved: stop them and measure again`;
  }

  #loads(name: keyof MachineLoad): number[] {
    const all = [...this.#rounds.values()].flatMap((rounds) => rounds.flatMap((round) => Object.entries(round)));
    return all.filter(([key]) => key.endsWith(`.${name}`)).map(([, value]) => value);
  }

  /** Undefined for a row without figures. In a list, for `flatMap`. */
  #cells(row: Row): [string[]] | undefined {
    const found = new Map([...this.#rounds].map(([arm, rounds]) => [arm, medians(row, rounds)]));
    if ([...found.values()].every((values) => values.length === 0)) return undefined;
    const single = (arm: string): number => {
      const values = found.get(arm) ?? [];
      return (row.sum || row.figures.length === 1) && values.length === 1 ? (values[0] ?? Number.NaN) : Number.NaN;
    };
    const ratios = this.#to.map((arm) => ratio(single(this.#subject), single(arm)));
    return [[row.label, ...[...found.values()].map((values) => values.map(figure).join(', ')), ...ratios]];
  }
}

function medians(row: Row, rounds: readonly Figures[]): number[] {
  const of = (read: (round: Figures) => number): number[] => {
    const values = rounds.map(read).filter(Number.isFinite);
    return values.length > 0 ? [median(values)] : [];
  };
  if (row.sum) return of((round) => valueOf(row, round));
  return row.figures.flatMap((name) => of((round) => round[name] ?? Number.NaN));
}

/** The sum of a row's figures; NaN when the round has none of them. */
function valueOf({ figures }: Row, round: Figures): number {
  const values = figures.flatMap((name) => round[name] ?? []);
  return values.length > 0 ? values.reduce((total, each) => total + each, 0) : Number.NaN;
}
