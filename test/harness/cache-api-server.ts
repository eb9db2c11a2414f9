import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type Clock, type Logger, systemClock } from '../../src/core/index.ts';
import type { CacheScope } from '../../src/contract/index.ts';
import type { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import type { View } from '../../src/gateway/informer/cache/view.ts';
import type { CachePositions } from '../../src/gateway/controller/access/token.ts';
import { TokenKeys } from '../../src/gateway/controller/access/token-keys.ts';
import { CacheApi } from '../../src/gateway/http/cache-api/cache-api.ts';
import { Catalog } from '../../src/gateway/http/cache-api/catalog.ts';
import { ReadingTimes } from '../../src/gateway/http/cache-api/reading-time.ts';
import { LoopbackServer } from './loopback-server.ts';
import { quietRuntime } from './quiet-runtime.ts';

export interface CacheApiServerOptions {
  readonly views: () => readonly View[];
  readonly client?: Pick<ApiClient, 'json'>;
  readonly clock?: Clock;
  readonly logger?: Logger;
  readonly listLimit?: number;
  readonly requestsPerSecond?: number;
  readonly available?: () => boolean;
  readonly onProgress?: () => void;
}

/** No discovery is there: short names and columns of custom resources are unknown. */
const silentApiserver: Pick<ApiClient, 'json'> = {
  json: () => Promise.reject(new Error('there is no apiserver in this test')),
};

/** The cache API alone, over views that a test fills itself, on a port of its own. */
export class CacheApiServer extends LoopbackServer {
  readonly api: CacheApi;
  readonly keys: TokenKeys;
  readonly #clock: Clock;

  private constructor(options: CacheApiServerOptions) {
    super(createServer());
    const { views, client = silentApiserver, clock = systemClock, onProgress = () => {} } = options;
    this.#clock = clock;
    this.keys = new TokenKeys({ ring: undefined, cluster: { keyPrefix: 'test', clusterId: 'c' }, clock });
    this.api = new CacheApi({
      catalog: new Catalog(
        () => views().map((view) => ({ view, requestProgress: onProgress, checked: () => true })),
        client,
        () => clock.now(),
      ),
      verify: (token) => {
        const { controller, scope = {}, positions } = this.keys.verify('levelhook-cache', token);
        return { name: controller, scope, positions, goesOn: async () => true };
      },
      available: options.available ?? (() => true),
      times: new ReadingTimes(clock),
      listLimit: options.listLimit ?? 50_000,
      requestsPerSecond: options.requestsPerSecond ?? 1e6,
      runtime: quietRuntime({ clock, ...(options.logger ? { logger: options.logger } : {}) }),
    });
    this.answerBy(getRequestListener((request) => this.api.handle(request, '/cache')));
  }

  static async start(options: CacheApiServerOptions): Promise<CacheApiServer> {
    const server = new CacheApiServer(options);
    await server.open();
    return server;
  }

  override get url(): string {
    return `${super.url}/cache`;
  }

  token(scope: CacheScope, controller = 'x', seconds = 60, positions: CachePositions = {}): string {
    return this.keys.sign('levelhook-cache', { controller, scope, positions }, this.#clock.now() + seconds * 1000);
  }
}
