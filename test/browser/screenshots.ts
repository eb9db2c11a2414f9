/**
 * Makes a picture of each page of the dashboard, light, dark and narrow, of a real gateway, into the folder that is the
 * only argument: `node --conditions=levelhook-source test/browser/screenshots.ts FOLDER`.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';
import { openBrowser } from './browser.ts';
import { startScene, untilDead } from './scene.ts';

const folder = process.argv[2];
if (folder === undefined) throw new Error('name a folder for the pictures');
mkdirSync(folder, { recursive: true });

const LOOKS = [
  { name: 'light', colorScheme: 'light', width: 1400 },
  { name: 'dark', colorScheme: 'dark', width: 1400 },
  { name: 'narrow', colorScheme: 'light', width: 390 },
] as const;

interface ShownRun {
  readonly run: number;
  readonly outcome: string;
  readonly reasons?: readonly { readonly resourceVersion?: string }[];
}

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const redis = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const plane = await startControlPlane({ onProgress });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const namespace = 'shop';
  await cluster.createNamespace(namespace);
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const { gateway } = await startScene(setting, { cluster, namespace, started });
  await untilDead(gateway.url, 5);
  await fetch(`${gateway.url}/queues/greeting/pause`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ scope: `namespace/${namespace}` }),
  });
  // A sample of the last hour is complete after half a minute.
  if (process.env['SCREENSHOTS_WAIT'] !== undefined) {
    await new Promise((resolve) => setTimeout(resolve, Number(process.env['SCREENSHOTS_WAIT'])));
  }
  const key = `${namespace}/broken-1`;
  const data = { fail: 'the disk of broken-1 is full', size: '10Gi' };
  const { metadata } = await cluster.patch(configMaps, { namespace, name: 'broken-1' }, { data });
  const history = await eventually(async () => {
    const answer = await fetch(`${gateway.url}/queues/moody/keys/${key}`);
    const { history: runs } = (await answer.json()) as { history: ShownRun[] };
    const isWoken = runs.some(({ reasons = [] }) =>
      reasons.some(({ resourceVersion }) => resourceVersion === metadata.resourceVersion),
    );
    if (!isWoken || runs[0]?.outcome !== 'dead') throw new Error(`${key} is no dead letter again`);
    return runs;
  });
  const pages = {
    overview: '/dashboard',
    controller: '/dashboard/controllers/moody?list=dead',
    runs: '/dashboard/controllers/moody/runs',
    key: `/dashboard/controllers/moody/keys/${key}`,
    run: `/dashboard/controllers/moody/runs/${history[0]?.run}/${key}`,
    tree: `/dashboard/controllers/greeting/keys/${namespace}/ann`,
    all: '/dashboard/controllers/moody?list=all',
    search: '/dashboard/search?q=ann',
    errors: '/dashboard/errors',
    cache: '/dashboard/views',
    objects: '/dashboard/views/objects?view=v1%2FConfigMap&namespace=shop',
  };
  const browser = await openBrowser();
  started.add(() => browser.close());
  const page = await browser.context.newPage();
  for (const { name: look, colorScheme, width } of LOOKS) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(gateway.url + path);
      await page.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true });
    }
  }
} finally {
  await started.stop();
}
