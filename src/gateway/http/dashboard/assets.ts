import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Hono } from 'hono';
import { DASHBOARD_PATH } from './urls.ts';

/** A file that the browser loads; its URL names its contents, so that it may be kept for ever. */
interface Asset {
  readonly url: string;
  readonly type: string;
  readonly text: string;
}

const ASSETS_PATH = `${DASHBOARD_PATH}/assets`;

/** The files of the pages: nothing is loaded from elsewhere. The first page reads them. */
export class Assets {
  #files: ReadonlyMap<string, Asset> | undefined;

  /** The URL of a file. */
  url(name: AssetName): string {
    return this.#all().get(name)?.url ?? '';
  }

  /** Serves the files, below the path of the dashboard. */
  app(): Hono {
    return new Hono().get('/assets/:version/:name', (context) => {
      const asset = this.#all().get(context.req.param('name'));
      if (!asset || asset.url !== context.req.path) return context.text('there is no such file\n', 404);
      return context.body(asset.text, 200, {
        'content-type': asset.type,
        'cache-control': 'public, max-age=31536000, immutable',
        'x-content-type-options': 'nosniff',
      });
    });
  }

  #all(): ReadonlyMap<string, Asset> {
    this.#files ??= new Map(
      Object.entries(FILES).map(([name, { path, type }]) => {
        const text = readFileSync(path(), 'utf8');
        const version = createHash('sha256').update(text).digest('base64url').slice(0, 12);
        return [name, { url: `${ASSETS_PATH}/${version}/${name}`, type, text }];
      }),
    );
    return this.#files;
  }
}

const own = (name: string) => (): string => join(import.meta.dirname, 'assets', name);
const JAVASCRIPT = 'text/javascript; charset=utf-8';

const FILES = {
  'dashboard.css': { path: own('dashboard.css'), type: 'text/css; charset=utf-8' },
  'live.js': { path: own('live.js'), type: JAVASCRIPT },
  'idiomorph.js': {
    path: () => createRequire(import.meta.url).resolve('idiomorph/dist/idiomorph.min.js'),
    type: JAVASCRIPT,
  },
};
type AssetName = keyof typeof FILES;
