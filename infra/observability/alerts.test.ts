import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { METRICS } from '../../src/core/index.ts';
import { REPOSITORY, ROOT } from '../site/pages.ts';

const PAGES = 'infra/docs/alerts';

interface Rule {
  readonly alert?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const { groups } = parse(read('infra/observability/rules.yaml')) as { groups: { rules: Rule[] }[] };
const alerts = groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined);
const names = new Set(Object.values(METRICS).flatMap((each) => Object.keys(each)));

it('each page is that of an alert', () => {
  const pages = globSync(`${PAGES}/*.md`, { cwd: ROOT }).map((path) => basename(path, '.md'));
  expect(new Set(pages)).toEqual(new Set([...alerts.map(({ alert }) => alert), 'README']));
});

describe.each(alerts.map(({ alert = '', annotations = {} }) => [alert, annotations] as const))(
  'the alert %s',
  (alert, annotations) => {
    const text = read(`${PAGES}/${alert}.md`);

    it('leads to its page, which has the effect, the search for the cause, and the mending', () => {
      expect(annotations['runbook_url']).toBe(`${REPOSITORY}/blob/main/${PAGES}/${alert}.md`);
      expect([...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading)).toEqual([
        alert,
        'Effect',
        'Find the cause',
        'Mend it',
      ]);
    });

    it('names metrics that a gateway has', () => {
      const named = [...text.matchAll(/`((?:levelhook|workqueue|controller_runtime|rest_client)_\w+)`/g)];
      expect(named.map(([, name = '']) => name).filter((name) => !names.has(name))).toEqual([]);
    });
  },
);

describe('the board', () => {
  interface Board {
    readonly links: readonly { readonly url: string }[];
    readonly panels: readonly {
      readonly title: string;
      readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
      readonly fieldConfig?: { readonly defaults?: { readonly links?: readonly { readonly url: string }[] } };
    }[];
    readonly templating: { readonly list: readonly { readonly name: string }[] };
  }
  const board = JSON.parse(read('infra/observability/dashboard.json')) as Board;
  const ofControllers = board.panels.filter(({ targets = [] }) =>
    targets.some(
      ({ expr, legendFormat = '' }) => /\$controller/.test(expr) && /\{\{(name|controller)\}\}/.test(legendFormat),
    ),
  );

  it('leads to the dashboard of the gateway', () => {
    expect(board.templating.list.map(({ name }) => name)).toContain('gateway');
    expect(board.links.map(({ url }) => url)).toEqual(['${gateway}/dashboard', '${gateway}/dashboard/errors']);
    expect(ofControllers.length).toBeGreaterThan(10);
  });

  it.each(ofControllers.map((each) => [each.title, each] as const))('leads from %s to the controller', (_, panel) => {
    const [link] = panel.fieldConfig?.defaults?.links ?? [];
    const label = /^\$\{gateway\}\/dashboard\/controllers\/\$\{__field\.labels\.(name|controller)\}$/.exec(
      link?.url ?? '',
    )?.[1];
    expect(label).toBeDefined();
    for (const { legendFormat } of panel.targets ?? []) expect(legendFormat).toContain(`{{${label}}}`);
  });
});
