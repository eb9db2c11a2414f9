import type { Resource, Runtime } from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { ViewSettings } from '../../../ground/config/cache-file.ts';
import type { OnHandlerError } from './change-handlers.ts';
import type { GatewayWriter } from './gateway-writer.ts';
import type { RelayOptions } from './relay.ts';
import type { View } from './view.ts';

export interface InformerOptions {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly settings: ViewSettings;
  readonly view: View;
  readonly viewAt: (prefix: string) => View | undefined;
  /** Says whether this gateway leads. Asked when the view carries another gateway's ID. */
  readonly writer: Pick<GatewayWriter, 'term' | 'check' | 'requestProgress'>;
  readonly listeners: CacheListeners;
  readonly runtime: Runtime;
}

/** The callbacks through which the cache reaches the controllers that a change concerns. */
export interface CacheListeners extends Pick<RelayOptions, 'enqueue' | 'lookupBudget' | 'onUndeliverable'> {
  readonly onHandlerError: OnHandlerError;
  /**
   * `outdated` became true, `refusal` began or ended, or objects began or ceased to be kept out of the view, which
   * these controllers read.
   */
  readonly onViewChanged: (users: readonly string[]) => void;
}
