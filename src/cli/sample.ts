import { createInterface } from 'node:readline/promises';
import { ApiError, messageOf, resource, resourcePath, UserError } from '../core/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';

const REPLICA_SET = resource('apps/v1', 'ReplicaSet');

/** A ReplicaSet of three in the namespace default. */
const SAMPLE = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: { name: 'hello', namespace: 'default' },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'hello' } },
    template: {
      metadata: { labels: { app: 'hello' } },
      spec: { containers: [{ name: 'hello', image: 'registry.k8s.io/pause:3.10' }] },
    },
  },
};

/**
 * Asks at the terminal; without a terminal the answer is no. Ctrl-D means no, and `signal` ends the question.
 * @param cluster as a person would name it.
 */
export async function askForSample(cluster: string, signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  // The terminal is in raw mode: Ctrl-C comes as a key, not as a signal.
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    const question = `Create the sample ReplicaSet default/hello in ${cluster}? [y/N] `;
    const answer = await terminal.question(question, { signal }).catch((error: unknown) => {
      // Ctrl-D, or the end of the input.
      if (!signal.aborted && error instanceof Error && error.name === 'AbortError') return '';
      throw error;
    });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/** Creates the sample, unless it exists already. @throws UserError when the cluster refuses. */
export async function createSample(kubeconfig: string): Promise<void> {
  const credentials = await loadCredentials(kubeconfig);
  try {
    const path = resourcePath(REPLICA_SET, { namespace: 'default' });
    await new ApiClient(credentials).json({ method: 'POST', path, body: SAMPLE });
  } catch (error) {
    if (error instanceof ApiError && error.reason === 'AlreadyExists') return;
    throw new UserError(
      `The sample ReplicaSet default/hello cannot be created (${messageOf(error)}): --no-sample does without it.`,
    );
  } finally {
    await credentials.close();
  }
}
