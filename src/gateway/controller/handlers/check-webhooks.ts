import { versionOf } from '../../../core/index.ts';
import type { WebhookDescription } from '../../../contract/index.ts';
import { checkSelector, SourceError } from './source-error.ts';

/**
 * Checks the rules of a description's webhooks that the schema cannot express.
 * @throws SourceError
 */
export function checkWebhooks(webhooks: readonly WebhookDescription[]): void {
  for (const [at, webhook] of webhooks.entries()) {
    const field = `webhooks.${at}`;
    const { name } = webhook;
    if (webhooks.findIndex((each) => each.name === name) !== at) {
      throw invalid(`${field}.name is "${name}", as that of an earlier webhook: give each a name of its own.`);
    }
    if (webhook.type === 'conversion') {
      const { versions } = webhook;
      const hub = versionOf(webhook);
      if (!versions.includes(hub)) throw invalid(`${field}.versions lacks ${hub}, the version of apiVersion.`);
      const again = versions.find((version, nth) => versions.indexOf(version) !== nth);
      if (again !== undefined) throw invalid(`${field}.versions has ${again} twice.`);
      continue;
    }
    for (const selector of ['namespaceSelector', 'objectSelector'] as const) {
      if (webhook[selector]) checkSelector(webhook[selector], `${field}.${selector}`);
    }
  }
}

function invalid(message: string): SourceError {
  return new SourceError('WebhookInvalid', message);
}
